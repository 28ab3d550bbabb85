// Builds pages.
#include "bindings/cli/report/page.h"

namespace hawser::cli {
namespace {

constexpr const char* kStyle = R"css(
:root { color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --ink: #1c2430; --muted: #667085; --line: #e4e7ec; --axis: #98a2b3;
  --train: #2f6fde; --validation: #e07b16; --rate: #0f8f78; --norm: #8a4fd0; --speed: #c2366b;
  --olive: #6b7a1f; --cyan: #1c8fb3; --brown: #9a5b34; }
@media (prefers-color-scheme: dark) { :root {
  --page: #12161c; --card: #1a2029; --ink: #e6eaf0; --muted: #98a3b3; --line: #2b3440; --axis: #5b6778;
  --train: #6ea3ff; --validation: #ffa94d; --rate: #3fc9ad; --norm: #b98cf2; --speed: #f47aa6;
  --olive: #b8c95c; --cyan: #5cc8ea; --brown: #d39b74; } }
* { box-sizing: border-box; }
body { margin: 0; padding: 28px 20px 48px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1180px; margin: 0 auto; }
h1 { font-size: 22px; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 15px; margin: 0 0 6px; }
.state { color: var(--muted); margin: 2px 0 18px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin-bottom: 16px; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)); gap: 16px; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px; min-width: 0; }
.tile b { display: block; font-size: 20px; font-variant-numeric: tabular-nums; }
.tile span { color: var(--muted); font-size: 13px; }
.chart { position: relative; }
svg { display: block; width: 100%; height: auto; overflow: visible; touch-action: pan-y; }
svg text { fill: var(--muted); font-size: 11.5px; font-variant-numeric: tabular-nums; }
svg .mark { stroke: var(--axis); }
svg .grid { stroke: var(--line); } svg .axis { stroke: var(--axis); }
table { border-collapse: collapse; width: 100%; }
td { padding: 4px 0; border-top: 1px solid var(--line); vertical-align: top; }
tr:first-child td { border-top: 0; }
td:first-child { color: var(--muted); padding-right: 24px; white-space: nowrap; }
td:last-child { overflow-wrap: anywhere; white-space: pre-line; }
.tip { display: none; position: absolute; top: 8px; z-index: 1; padding: 5px 9px; pointer-events: none;
  background: var(--card); border: 1px solid var(--line); border-radius: 6px; box-shadow: 0 2px 8px #0003;
  font-size: 13px; white-space: nowrap; max-width: 100%; font-variant-numeric: tabular-nums; }
.tip div { overflow: hidden; text-overflow: ellipsis; }
.tip.shown { display: block; }
.tip div::before, .key::before { content: ""; display: inline-block; width: 12px; height: 3px; margin: 0 7px 3px 0;
  background: var(--curve); }
.unit { color: var(--muted); font-weight: 400; }
.keys { display: flex; flex-wrap: wrap; gap: 0 16px; margin-bottom: 6px; font-size: 13px; }
.wide { margin-top: 16px; }
pre { margin: 6px 0 0; white-space: pre-wrap; overflow-wrap: anywhere; font: 13px/1.45 ui-monospace, Consolas, monospace; }
summary { cursor: pointer; font-weight: 600; }
@media (max-width: 600px) {
  body { padding: 18px 10px 32px; }
  svg text { font-size: 18px; }
  .facts td { display: block; border: 0; padding: 0; }
  .facts td:first-child { font-size: 13px; padding-top: 8px; }
}
)css";

/// Shows a line at the point nearest to the pointer or finger, and the value of each curve there. A chart's
/// values follow it as JSON (chart_values).
constexpr const char* kScript = R"js(
for (const values of document.querySelectorAll("script[type='application/json']")) {
  const chart = JSON.parse(values.textContent), svg = values.previousElementSibling;
  const tip = svg.parentNode.appendChild(document.createElement("div"));
  const mark = svg.appendChild(document.createElementNS(svg.namespaceURI, "g"));
  const draw = (name, attributes) => {
    const shape = mark.appendChild(document.createElementNS(svg.namespaceURI, name));
    for (const key in attributes) shape.setAttribute(key, attributes[key]);
  };
  const left = x => chart.left + chart.width * (x - chart.x[0]) / (chart.x[1] - chart.x[0]);
  const top = y => chart.top + chart.height * (1 - (y - chart.y[0]) / (chart.y[1] - chart.y[0]));
  const distance = (point, at) => Math.abs(left(point[0]) - at);
  const nearest = (points, at) => points.reduce((a, b) => distance(b, at) < distance(a, at) ? b : a);
  const place = x => chart.unit + " " + x.toLocaleString("en", {maximumFractionDigits: 2});
  const hide = () => { tip.className = "tip"; mark.replaceChildren(); };
  const show = event => {
    const box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width;
    const found = chart.curves.map(curve => nearest(curve.points, (event.clientX - box.left) / scale));
    if (!found.length) return;
    const x = nearest(found, (event.clientX - box.left) / scale)[0], at = left(x);
    hide();
    draw("line", {class: "mark", x1: at, x2: at, y1: chart.top, y2: chart.top + chart.height});
    tip.textContent = place(x);
    chart.curves.forEach((curve, i) => {
      const [own, y] = nearest(curve.points, at), row = tip.appendChild(document.createElement("div"));
      row.textContent = curve.name + " " + y + (distance([own], at) > 4 ? " (" + place(own) + ")" : "");
      row.style.setProperty("--curve", curve.colour);
      if (distance([own], at) <= 4 && y <= chart.y[1])
        draw("circle", {cx: left(own), cy: top(y), r: 3.5, style: "fill:" + curve.colour});
    });
    tip.className = "tip shown";
    const right = at * scale + 10, room = box.width - tip.offsetWidth;
    tip.style.left = Math.max(0, right < room ? right : Math.min(room, right - 20 - tip.offsetWidth)) + "px";
  };
  svg.addEventListener("pointermove", show);
  svg.addEventListener("pointerdown", show);
  svg.addEventListener("pointerleave", event => event.pointerType == "mouse" && hide());
  document.addEventListener("pointerdown", event => svg.contains(event.target) || hide());
}
)js";

/// A browser loads nothing for this page, whatever its texts contain.
constexpr const char* kPolicy =
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'\">\n";

}  // namespace

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t')
      out += "\xC2\xB7";  // a middle dot
    else
      out += c;
  }
  return out;
}

std::string html_page(const std::string& title, const std::string& head, const std::string& body) {
  return std::string("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n") + kPolicy +
         "<title>" + escaped(title) +
         " - Hawser</title>\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n" +
         "<style>" + kStyle + "</style>\n" + head + "</head>\n<body><main>\n" + body + "</main>\n<script>" +
         kScript + "</script>\n</body>\n</html>\n";
}

std::string chart_card(const std::string& heading, const Chart& chart) {
  std::string values = chart_values(chart);
  for (size_t at = values.find('<'); at != std::string::npos; at = values.find('<', at))
    values.replace(at, 1, "\\u003c");  // a name that contains "</script>" must not end the element
  std::string keys;
  for (const Series& series : chart.series)
    if (!series.label.empty())
      keys += "<span class=\"key\" style=\"--curve:" + series.colour + "\">" + escaped(series.label) +
              "</span>\n";
  if (!keys.empty()) keys = "<div class=\"keys\">\n" + keys + "</div>\n";
  return "<section class=\"card\"><h2>" + escaped(heading) +
         (chart.y_label.empty() ? "" : "<span class=\"unit\">, " + escaped(chart.y_label) + "</span>") +
         "</h2>\n" + keys + "<div class=\"chart\">\n" + svg(chart) + "<script type=\"application/json\">" +
         values + "</script>\n</div></section>\n";
}

std::string table_rows(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::string out;
  for (const auto& [label, value] : rows)
    out += "<tr><td>" + escaped(label) + "</td><td>" + escaped(value) + "</td></tr>\n";
  return out;
}

}  // namespace hawser::cli
