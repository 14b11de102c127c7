import type { IncomingHttpHeaders } from "node:http";
import { isIP } from "node:net";
import { T4tError } from "../../protocol/errors.ts";

/**
 * A gateway without keys trusts the machine that it runs on; a web page open in a browser there is not part of that trust. Refuses
 * what only such a page sends: a host name that is not the machine's (a name rebound to loopback), or a foreign origin.
 */
export function refuseForeignPages(headers: IncomingHttpHeaders): void {
  if (!isLocalHost(headers.host)) {
    throw new T4tError(
      "invalid_api_key",
      "This gateway has no API keys and answers on loopback names only. Configure T4T_API_KEYS to reach it by another name.",
    );
  }
  const { origin } = headers;
  if (origin === undefined) return;
  if (URL.canParse(origin) && isLocalHost(new URL(origin).host)) return;
  throw new T4tError("invalid_api_key", "This gateway has no API keys and does not answer web pages of other origins.");
}

function isLocalHost(host: string | undefined): boolean {
  if (host === undefined) return true;
  const name = host.replace(/:\d+$/, "").toLowerCase();
  const bare = name.startsWith("[") && name.endsWith("]") ? name.slice(1, -1) : name;
  if (isIP(bare) !== 0) return true;
  return bare === "localhost" || bare.endsWith(".localhost");
}

/** JSON must be announced: a page of another origin can then only send it after asking, and is never told yes. */
export function requireJson(contentType: string | undefined): void {
  const type = contentType?.split(";")[0]?.trim().toLowerCase();
  if (type === "application/json" || type?.endsWith("+json") === true) return;
  throw new T4tError(
    "unsupported_content_type",
    "Send the request body as JSON with the header Content-Type: application/json.",
  );
}
