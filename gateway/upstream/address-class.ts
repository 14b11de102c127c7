import { BlockList, isIP } from "node:net";

/** Ranges of the IPv4 special-purpose registry, and single addresses on which clouds answer their guests. */
const closedIpv4 = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 4],
  ["240.0.0.0", 4],
  ["168.63.129.16", 32],
] as const;

/** Parts of the IPv6 global unicast range that lead elsewhere: tunnels that carry an IPv4 address, documentation, protocol assignments. */
const closedIpv6 = [
  ["2001::", 23],
  ["2001:db8::", 32],
  ["2002::", 16],
  ["3fff::", 20],
] as const;

const closed4 = new BlockList();
for (const [network, prefix] of closedIpv4) closed4.addSubnet(network, prefix, "ipv4");
const closed6 = new BlockList();
for (const [network, prefix] of closedIpv6) closed6.addSubnet(network, prefix, "ipv6");
const globalUnicast6 = new BlockList();
globalUnicast6.addSubnet("2000::", 3, "ipv6");

/**
 * Whether an IP address is one of the public internet. Everything else is closed: private, loopback, link-local, carrier NAT,
 * metadata services, multicast, documentation, and every IPv6 form that carries an IPv4 address (mapped, compatible, NAT64, 6to4,
 * Teredo). Text that is no IP address is not public.
 */
export function isPublicAddress(address: string): boolean {
  const bare = address.startsWith("[") && address.endsWith("]") ? address.slice(1, -1) : address;
  switch (isIP(bare)) {
    case 4:
      return !closed4.check(bare, "ipv4");
    case 6:
      // An address with a zone is of one link.
      return !bare.includes("%") && globalUnicast6.check(bare, "ipv6") && !closed6.check(bare, "ipv6");
    default:
      return false;
  }
}
