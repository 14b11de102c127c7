import { isIP } from "node:net";
import { isPublicAddress } from "./address-class.ts";

/** Where a provider answers: an origin and the path before `/v1`. */
export interface Endpoint {
  /** Scheme, host and port. */
  readonly origin: string;
  /** Empty or `/path` without a slash at its end. */
  readonly basePath: string;
}

/** Why an endpoint is not called. A bounded word: also a metric label. */
export type EndpointRefusal = "malformed" | "scheme" | "credentials" | "private_address" | "port";

/** Ports below 1024 on which HTTP is at home; a request to any other could be made to speak to a mail or directory server. */
const allowedLowPorts = new Set(["", "80", "443"]);
const maxEndpointLength = 2048;
const maxParsed = 10_000;
const parsed = new Map<string, Endpoint | EndpointRefusal>();

/**
 * Reads the endpoint that a stranger published on chain. Only http and https, no credentials, query or fragment; without
 * `allowPrivate` no local names, no closed IP addresses (in any notation) and no low port but 80 and 443. Names are resolved and
 * checked once more at the moment of connecting.
 */
export function parseEndpoint(text: string, allowPrivate: boolean): Endpoint | EndpointRefusal {
  const key = `${allowPrivate ? "all" : "public"} ${text}`;
  const known = parsed.get(key);
  if (known !== undefined) return known;
  const result = parse(text, allowPrivate);
  // Every selection looks at some: a bounded memory, emptied rather than kept in order.
  if (parsed.size >= maxParsed) parsed.clear();
  parsed.set(key, result);
  return result;
}

function parse(text: string, allowPrivate: boolean): Endpoint | EndpointRefusal {
  if (text.length > maxEndpointLength || !URL.canParse(text)) return "malformed";
  const url = new URL(text);
  if (url.protocol !== "http:" && url.protocol !== "https:") return "scheme";
  if (url.username !== "" || url.password !== "") return "credentials";
  if (url.search !== "" || url.hash !== "" || url.hostname === "") return "malformed";
  if (!allowPrivate) {
    if (!isPublicHost(url.hostname)) return "private_address";
    if (url.port !== "" && Number(url.port) < 1024 && !allowedLowPorts.has(url.port)) return "port";
  }
  const path = url.pathname.replace(/\/+$/, "");
  // A base URL in the habit of OpenAI clients ends in /v1; ours does not.
  return { origin: url.origin, basePath: path.endsWith("/v1") ? path.slice(0, -3) : path };
}

/** `hostname` of a URL: the URL parser has already turned every notation of an IPv4 address into four decimal numbers. */
function isPublicHost(hostname: string): boolean {
  const bare = hostname.startsWith("[") ? hostname.slice(1, -1) : hostname;
  if (isIP(bare) !== 0) return isPublicAddress(bare);
  const name = bare.replace(/\.$/, "").toLowerCase();
  return name.includes(".") && !/\.(?:localhost|local|internal|home\.arpa|localdomain)$/.test(name);
}
