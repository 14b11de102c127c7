import type { ServerResponse } from "node:http";
import { formatSse, formatSseComment, sseContentType } from "../../protocol/sse.ts";
import type { StatusService } from "../statistics/status-service.ts";

/** Unread bytes at which a follower is dropped: it will come back. */
const maxUnreadBytes = 256 * 1024;

/** Serves the signed status as server-sent events until the reader leaves, or another one needs its place. */
export function serveStatusEvents(service: StatusService, response: ServerResponse): void {
  response.writeHead(200, {
    "content-type": sseContentType,
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
  });
  response.flushHeaders();
  const write = (text: string): void => {
    if (response.writableLength > maxUnreadBytes) response.destroy();
    else response.write(text);
  };
  const unsubscribe = service.subscribe({
    status: (signed) => write(formatSse({ event: "status", data: JSON.stringify(signed) })),
    heartbeat: () => write(formatSseComment("heartbeat")),
    replaced: () => response.destroy(),
  });
  response.on("close", unsubscribe);
}
