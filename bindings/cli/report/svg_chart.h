// Chart: a line chart as inline SVG, with a grid and axes with round ticks. Its colours come from CSS
// variables of the surrounding page, so that it follows the reader's light or dark theme.
#pragma once

#include <string>
#include <vector>

namespace hawser::cli {

struct Point {
  double x = 0, y = 0;
};

struct Series {
  std::string label;   ///< in the legend (chart_card); "" leaves the series out of it
  std::string colour;  ///< a CSS colour, such as "var(--train)"
  double opacity = 1.0;
  double width = 1.8;
  bool dots = false;          ///< also a dot at each point
  std::vector<Point> points;  ///< ascending x; a y that is not finite breaks the line
  std::string name = "";      ///< in chart_values; "" leaves the series out of them
};

struct Chart {
  std::string title;  ///< for screen readers
  std::string x_label;
  std::string y_label;     ///< in the heading (chart_card)
  bool from_zero = false;  ///< the y axis begins at 0
  std::vector<Series> series;
};

/// Returns <svg>...</svg>. A few extreme points do not flatten the rest: they are cut off and counted in a
/// note.
std::string svg(const Chart& chart);

/// Returns the chart's axes and the points of its named series as JSON for the page's script: the place of
/// the plot in the SVG, the ranges of x and y, the unit of x, and the name, colour and points of each curve.
/// Values of y have 5 significant digits.
std::string chart_values(const Chart& chart);

/// Returns the running median over `window` points around each of at most `columns` points; skips non-finite
/// values.
std::vector<Point> smoothed(const std::vector<Point>& points, size_t window, size_t columns);

/// Returns at most 2 * columns points that keep every peak and dip.
std::vector<Point> thinned(const std::vector<Point>& points, size_t columns);

}  // namespace hawser::cli
