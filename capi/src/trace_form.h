// Converts HWS_FORMAT_... to the form of a trace.
#pragma once

#include "capi/src/guard.h"
#include "engine/report/trace_report.h"

namespace hawser::capi {

/// Throws kInvalidArgument for other formats.
inline train::TraceForm trace_form(const Call& call, int32_t format) {
  switch (format) {
    case HWS_FORMAT_JSON:
      return train::TraceForm::kJson;
    case HWS_FORMAT_TEXT:
      return train::TraceForm::kText;
    case HWS_FORMAT_SVG:
      return train::TraceForm::kSvg;
    default:
      call.invalid("format", fmt::format("is {}; this function takes HWS_FORMAT_TEXT, HWS_FORMAT_JSON and "
                                         "HWS_FORMAT_SVG",
                                         format));
  }
}

}  // namespace hawser::capi
