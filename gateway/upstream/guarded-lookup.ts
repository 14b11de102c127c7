import type { LookupAddress, LookupOptions } from "node:dns";
import { Resolver } from "node:dns/promises";
import { isPublicAddress } from "./address-class.ts";

/** A name that leads to an address which the gateway does not call. */
export class ClosedAddressError extends Error {
  override readonly name = "ClosedAddressError";

  constructor() {
    super("the provider's endpoint resolves to an address that is not public");
  }
}

/** Addresses of a host name. Rejects when there is none. */
export type Resolve = (hostname: string) => Promise<readonly LookupAddress[]>;

/** Shape of the `lookup` option of `net.connect`. */
export type Lookup = (
  hostname: string,
  options: LookupOptions,
  callback: (error: NodeJS.ErrnoException | null, address: string | LookupAddress[], family?: number) => void,
) => void;

/**
 * Resolves by DNS packets instead of the system's resolver: names come from strangers, and a name server that never answers would
 * hold one of the few threads that `dns.lookup` shares with the rest of the process.
 */
export function dnsResolve(timeoutMs = 2000): Resolve {
  const resolver = new Resolver({ timeout: timeoutMs, tries: 2 });
  return async (hostname) => {
    const [ipv4, ipv6] = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)]);
    const addresses: LookupAddress[] = [];
    if (ipv4.status === "fulfilled") addresses.push(...ipv4.value.map((address) => ({ address, family: 4 })));
    if (ipv6.status === "fulfilled") addresses.push(...ipv6.value.map((address) => ({ address, family: 6 })));
    if (addresses.length === 0 && ipv4.status === "rejected") throw ipv4.reason;
    return addresses;
  };
}

/**
 * A `lookup` for sockets that refuses closed addresses at the moment of connecting, so that a name cannot be checked with one
 * address and called at another. One closed address among public ones refuses the name.
 */
export function guardedLookup(resolve: Resolve): Lookup {
  const usable = async (hostname: string, options: LookupOptions): Promise<[LookupAddress, ...LookupAddress[]]> => {
    const addresses = await resolve(hostname);
    if (addresses.some(({ address }) => !isPublicAddress(address))) throw new ClosedAddressError();
    const family = options.family === "IPv4" ? 4 : options.family === "IPv6" ? 6 : options.family;
    const [first, ...rest] =
      family === 4 || family === 6 ? addresses.filter((one) => one.family === family) : addresses;
    if (first === undefined) {
      throw Object.assign(new Error("the provider's host name has no address"), { code: "ENOTFOUND" });
    }
    return [first, ...rest];
  };
  const look = async (...[hostname, options, callback]: Parameters<Lookup>): Promise<void> => {
    let addresses: [LookupAddress, ...LookupAddress[]];
    try {
      addresses = await usable(hostname, options);
    } catch (error) {
      callback(error instanceof Error ? error : new Error(String(error)), []);
      return;
    }
    if (options.all === true) callback(null, addresses);
    else callback(null, addresses[0].address, addresses[0].family);
  };
  return (hostname, options, callback) => void look(hostname, options, callback);
}
