// Draws charts for the report.
#include "bindings/cli/report/svg_chart.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bindings/cli/quantity.h"
#include "bindings/cli/report/page.h"

namespace hawser::cli {
namespace {

constexpr double kWidth = 560, kHeight = 300;
constexpr double kLeft = 62, kRight = 14, kTop = 16, kBottom = 46;
constexpr double kPlotWidth = kWidth - kLeft - kRight, kPlotHeight = kHeight - kTop - kBottom;

/// One axis: its range, and the mapping from values to positions.
struct Axis {
  double low = 0, high = 1, tick = 1;
  double share(double value) const { return (value - low) / (high - low); }
};

/// Returns the round number (1, 2 or 5 times a power of ten) that gives about `count` ticks over `range`.
double round_tick(double range, int count) {
  const double raw = range / count;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power * 1.0001) return factor * power;
  }
  return 10.0 * power;
}

Axis make_axis(double low, double high, int ticks, bool widen) {
  if (!(high > low)) {
    const double pad = high != 0 ? std::fabs(high) * 0.1 : 1.0;
    low -= pad;
    high += pad;
  }
  Axis axis;
  axis.tick = round_tick(high - low, ticks);
  axis.low = widen ? std::floor(low / axis.tick + 1e-9) * axis.tick : low;
  axis.high = widen ? std::ceil(high / axis.tick - 1e-9) * axis.tick : high;
  return axis;
}

/// Returns the digits after the point that distinguish neighbouring ticks.
int decimals_of(double tick) { return std::max(0, static_cast<int>(std::ceil(-std::log10(tick) - 1e-9))); }

std::string tick_text(double value, const Axis& axis) {
  const double largest = std::max(std::fabs(axis.low), std::fabs(axis.high));
  if (std::fabs(value) < axis.tick * 1e-6) return "0";
  if (largest >= 10000) {
    const double unit = largest >= 1e9 ? 1e9 : largest >= 1e6 ? 1e6 : 1e3;
    const char* name = unit == 1e9 ? "B" : unit == 1e6 ? "M" : "k";
    return format_text("%.*f%s", decimals_of(axis.tick / unit), value / unit, name);
  }
  if (largest < 0.01) {
    std::string text = format_text("%.1e", value);  // 6.0e-04 -> 6e-4
    const size_t zero = text.find(".0e");
    if (zero != std::string::npos) text.erase(zero, 2);
    const size_t exponent = text.find("e-0");
    if (exponent != std::string::npos) text.erase(exponent + 2, 1);
    return text;
  }
  return format_text("%.*f", decimals_of(axis.tick), value);
}

/// Returns the range of y over all series, ignoring a few extreme points.
Axis make_y_axis(const Chart& chart) {
  std::vector<double> values;
  for (const Series& series : chart.series) {
    for (const Point& point : series.points) {
      if (std::isfinite(point.y)) values.push_back(point.y);
    }
  }
  if (values.empty()) return make_axis(0, 1, 5, true);
  std::sort(values.begin(), values.end());
  const auto quantile = [&](double q) {
    return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
  };
  const double spread = quantile(0.99) - quantile(0.01);
  double low = values.front(), high = values.back();
  if (values.size() > 50 && high > quantile(0.99) + 2.5 * spread) high = quantile(0.99) + 0.25 * spread;
  if (chart.from_zero) low = std::min(low, 0.0);
  return make_axis(low, high, 5, true);
}

Axis make_x_axis(const Chart& chart) {
  double low = INFINITY, high = -INFINITY;
  for (const Series& series : chart.series) {
    if (series.points.empty()) continue;
    low = std::min(low, series.points.front().x);
    high = std::max(high, series.points.back().x);
  }
  if (!std::isfinite(low)) return make_axis(0, 1, 6, false);
  if (low <= 0.1 * high) low = 0;
  return make_axis(low, high, 6, false);
}

std::string text_at(double x, double y, const char* anchor, const std::string& text, const char* more = "") {
  return format_text("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>", x, y, anchor, more) + text +
         "</text>\n";
}

std::string grid(const Axis& x_axis, const Axis& y_axis) {
  std::string out;
  for (double v = std::ceil(y_axis.low / y_axis.tick - 1e-9) * y_axis.tick;
       v <= y_axis.high + y_axis.tick * 1e-6; v += y_axis.tick) {
    const double y = kTop + kPlotHeight * (1.0 - y_axis.share(v));
    out += format_text("<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n", kLeft,
                       kLeft + kPlotWidth, y, y);
    out += text_at(kLeft - 7, y + 3.8, "end", tick_text(v, y_axis));
  }
  for (double v = std::ceil(x_axis.low / x_axis.tick - 1e-9) * x_axis.tick;
       v <= x_axis.high + x_axis.tick * 1e-6; v += x_axis.tick) {
    const double x = kLeft + kPlotWidth * x_axis.share(v);
    out += format_text("<line class=\"axis\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n", x, x,
                       kTop + kPlotHeight, kTop + kPlotHeight + 4);
    out += text_at(x, kTop + kPlotHeight + 18, "middle", tick_text(v, x_axis));
  }
  out += format_text("<line class=\"axis\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n", kLeft,
                     kLeft + kPlotWidth, kTop + kPlotHeight, kTop + kPlotHeight);
  return out;
}

std::string line(const Series& series, const Axis& x_axis, const Axis& y_axis) {
  std::string path, dots;
  bool pen_down = false;
  for (const Point& point : series.points) {
    if (!std::isfinite(point.y)) {
      pen_down = false;
      continue;
    }
    const double x = kLeft + kPlotWidth * x_axis.share(point.x);
    const double y =
        std::max(kTop + kPlotHeight * (1.0 - y_axis.share(point.y)), -kHeight);  // cuts off far points
    path += format_text("%s%.1f %.1f", pen_down ? "L" : "M", x, y);
    pen_down = true;
    if (series.dots && series.points.size() <= 120) {
      dots += format_text("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\" style=\"fill:%s\"/>\n", x, y,
                          series.colour.c_str());
    }
  }
  return "<path d=\"" + path +
         format_text("\" style=\"stroke:%s;stroke-width:%.1f;opacity:%.2f\"/>\n", series.colour.c_str(),
                     series.width, series.opacity) +
         dots;
}

double rounded(double value, int digits) { return std::stod(format_text("%.*g", digits, value)); }

/// Returns the largest number of points that one curve has above the axis.
size_t points_above(const Chart& chart, double high) {
  size_t most = 0;
  for (const Series& series : chart.series) {
    const auto above = std::count_if(series.points.begin(), series.points.end(), [&](const Point& point) {
      return std::isfinite(point.y) && point.y > high;
    });
    most = std::max(most, static_cast<size_t>(above));
  }
  return most;
}

}  // namespace

std::string svg(const Chart& chart) {
  const Axis x_axis = make_x_axis(chart), y_axis = make_y_axis(chart);
  std::string id = "clip-";
  for (const char c : chart.title) id += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '-';
  std::string out =
      format_text("<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"", kWidth, kHeight) +
      escaped(chart.title) + "\">\n<clipPath id=\"" + id + "\">" +
      format_text("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/></clipPath>\n", kLeft - 3,
                  kTop - 3, kPlotWidth + 6, kPlotHeight + 6);
  out += grid(x_axis, y_axis);
  out += "<g fill=\"none\" stroke-linejoin=\"round\" clip-path=\"url(#" + id + ")\">\n";
  for (const Series& series : chart.series) out += line(series, x_axis, y_axis);
  out += "</g>\n";
  out += text_at(kLeft + kPlotWidth / 2, kHeight - 8, "middle", chart.x_label);
  if (const size_t above = points_above(chart, y_axis.high); above > 0) {
    out += text_at(kLeft + 8, kTop + 12, "start",
                   format_text("%zu point%s above", above, above == 1 ? "" : "s"));
  }
  return out + "</svg>\n";
}

std::string chart_values(const Chart& chart) {
  const Axis x_axis = make_x_axis(chart), y_axis = make_y_axis(chart);
  auto curves = nlohmann::ordered_json::array();
  for (const Series& series : chart.series) {
    if (series.name.empty()) continue;
    auto points = nlohmann::ordered_json::array();
    for (const Point& point : series.points)
      if (std::isfinite(point.y)) points.push_back({rounded(point.x, 9), rounded(point.y, 5)});
    if (!points.empty())
      curves.push_back({{"name", series.name}, {"colour", series.colour}, {"points", points}});
  }
  const nlohmann::ordered_json values = {{"left", kLeft},
                                         {"top", kTop},
                                         {"width", kPlotWidth},
                                         {"height", kPlotHeight},
                                         {"x", {x_axis.low, x_axis.high}},
                                         {"y", {y_axis.low, y_axis.high}},
                                         {"unit", chart.x_label},
                                         {"curves", curves}};
  return values.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::vector<Point> smoothed(const std::vector<Point>& points, size_t window, size_t columns) {
  std::vector<Point> finite;
  std::copy_if(points.begin(), points.end(), std::back_inserter(finite),
               [](const Point& point) { return std::isfinite(point.y); });
  std::vector<Point> result;
  std::vector<double> values;
  const size_t count = finite.size(), places = std::min(columns, count);
  for (size_t place = 0; place < places; ++place) {
    const size_t i = places > 1 ? place * (count - 1) / (places - 1) : 0;
    const size_t half =
        std::min({window / 2, i, count - 1 - i});  // symmetric, so that a slope is not shifted
    values.clear();
    for (size_t k = i - half; k <= i + half; ++k) values.push_back(finite[k].y);
    std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(half), values.end());
    result.push_back({finite[i].x, values[half]});
  }
  return result;
}

std::vector<Point> thinned(const std::vector<Point>& points, size_t columns) {
  if (points.size() <= 2 * columns) return points;
  std::vector<Point> result;
  for (size_t c = 0; c < columns; ++c) {
    const size_t begin = c * points.size() / columns, end = (c + 1) * points.size() / columns;
    size_t low = begin, high = begin;
    for (size_t i = begin; i < end; ++i) {
      if (points[i].y < points[low].y) low = i;
      if (points[i].y > points[high].y) high = i;
    }
    result.push_back(points[std::min(low, high)]);
    if (low != high) result.push_back(points[std::max(low, high)]);
  }
  return result;
}

}  // namespace hawser::cli
