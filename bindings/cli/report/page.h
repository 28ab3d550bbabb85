// page: functions that make self-contained HTML pages: one style for all, a script that shows the values of
// charts under the pointer, and nothing from a network.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bindings/cli/report/svg_chart.h"

namespace hawser::cli {

/// Returns the text with the characters escaped that HTML gives a meaning, and with a middle dot in place of
/// each other control character.
std::string escaped(const std::string& text);

/// Returns a complete page. `title` is escaped here. `head` has more elements of the head and `body` is the
/// contents of <main>, both as HTML.
std::string html_page(const std::string& title, const std::string& head, const std::string& body);

/// Returns a card with a chart and the values that the page's script shows under the pointer.
std::string chart_card(const std::string& heading, const Chart& chart);

/// Returns the rows of a table of two columns; escapes the texts.
std::string table_rows(const std::vector<std::pair<std::string, std::string>>& rows);

}  // namespace hawser::cli
