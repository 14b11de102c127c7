import type { ServerResponse } from "node:http";
import { formatSse, formatSseComment, sseContentType } from "../../protocol/sse.ts";
import { ProviderError } from "../errors.ts";
import type { StatusService } from "../statistics/status-service.ts";

/** Gateways that may follow at once. */
const maxSubscribers = 256;
/** Unread bytes at which a follower is dropped: it will come back. */
const maxUnreadBytes = 256 * 1024;

/** Serves the signed status as server-sent events until the reader leaves. */
export function serveStatusEvents(service: StatusService, response: ServerResponse): void {
  if (service.subscribers >= maxSubscribers) {
    throw new ProviderError("provider_busy", "too many readers follow the status");
  }
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
  });
  response.on("close", unsubscribe);
}
