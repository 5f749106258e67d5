#include "tools/web/pages.h"

#include "common/sentence.h"
#include "tools/web/page_files.h"

namespace stria::web {
namespace {

constexpr char kJson[] = "application/json; charset=utf-8";
constexpr char kText[] = "text/plain; charset=utf-8";

}  // namespace

WebReply PageAt(const std::string& path, Board* board, int64_t now_ms) {
  if (path == "/") return {200, "text/html; charset=utf-8", kPageHtml};
  if (path == "/page.css") return {200, "text/css; charset=utf-8", kPageCss};
  if (path == "/page.js") return {200, "text/javascript; charset=utf-8", kPageJs};
  if (path == "/charts.js") return {200, "text/javascript; charset=utf-8", kChartsJs};
  if (path == "/icon.svg") return {200, "image/svg+xml", kIconSvg};
  if (path == "/api/status.json") return {200, kJson, board->Status(now_ms)};
  if (path == "/api/history.json") return {200, kJson, board->History(now_ms)};
  if (path == "/api/events.json") return {200, kJson, board->Events()};
  if (path == "/healthz") {
    const Result<std::string> health = board->Health(now_ms);
    return health.ok() ? WebReply{200, kText, *health + "\n"} : WebReply{503, kText, SentenceOf(health.error()) + "\n"};
  }
  return {404, kText, "there is nothing here; the page is at /\n"};
}

}  // namespace stria::web
