import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { expect } from "chai";
import fc from "fast-check";
import { systemClock } from "../../../chain/system-clock.ts";
import { isPublicAddress } from "../../../gateway/upstream/address-class.ts";
import { ProviderConnections } from "../../../gateway/upstream/connections.ts";
import { parseEndpoint } from "../../../gateway/upstream/endpoint.ts";
import { ExchangeError } from "../../../gateway/upstream/exchange.ts";
import { exchangeShort } from "../../../gateway/upstream/fetch-json.ts";

function failureOf(error: unknown): string {
  return error instanceof ExchangeError ? error.failure : String(error);
}

const closed = [
  "0.0.0.0",
  "10.1.2.3",
  "100.64.0.1",
  "100.100.100.200",
  "127.0.0.1",
  "127.255.255.254",
  "169.254.169.254",
  "172.16.0.1",
  "172.31.255.255",
  "192.0.0.192",
  "192.168.1.1",
  "198.18.0.1",
  "224.0.0.1",
  "255.255.255.255",
  "168.63.129.16",
  "::",
  "::1",
  "::ffff:127.0.0.1",
  "::ffff:8.8.8.8",
  "::7f00:1",
  "64:ff9b::7f00:1",
  "fe80::1",
  "fe80::1%eth0",
  "fc00::1",
  "fd00:ec2::254",
  "ff02::1",
  "2001::1",
  "2001:db8::1",
  "2002:7f00:1::",
  "3fff::1",
];
const open = [
  "1.1.1.1",
  "8.8.8.8",
  "100.63.255.255",
  "172.32.0.1",
  "192.167.255.255",
  "2606:4700::1111",
  "2a00:1450::1",
];

describe("addresses that a stranger can make the gateway call", () => {
  for (const address of closed) it(`do not include ${address}`, () => expect(isPublicAddress(address)).to.equal(false));
  for (const address of open) it(`include ${address}`, () => expect(isPublicAddress(address)).to.equal(true));

  it("do not include anything that is no address", () => {
    fc.assert(
      fc.property(
        fc.string().filter((text) => !/^[\d.:a-f]+$/i.test(text)),
        (text) => !isPublicAddress(text),
      ),
    );
  });
});

describe("a published endpoint", () => {
  for (const [text, refusal] of [
    ["not a url", "malformed"],
    ["", "malformed"],
    ["ftp://gpu.example.com", "scheme"],
    ["file:///etc/passwd", "scheme"],
    ["javascript:alert(1)", "scheme"],
    ["https://user:pass@gpu.example.com", "credentials"],
    ["https://gpu.example.com/?x=1", "malformed"],
    ["https://gpu.example.com/#x", "malformed"],
    [`https://gpu.example.com/${"x".repeat(3000)}`, "malformed"],
    ["http://localhost:8080", "private_address"],
    ["http://foo.localhost", "private_address"],
    ["http://db.internal", "private_address"],
    ["http://printer.local", "private_address"],
    ["http://intranet", "private_address"],
    ["http://127.0.0.1", "private_address"],
    ["http://127.1", "private_address"],
    ["http://0x7f000001", "private_address"],
    ["http://2130706433", "private_address"],
    ["http://017700000001", "private_address"],
    ["http://[::1]:9", "private_address"],
    ["http://[::ffff:10.0.0.1]", "private_address"],
    ["http://169.254.169.254/latest", "private_address"],
    ["http://gpu.example.com:25", "port"],
    ["http://gpu.example.com:22", "port"],
  ] as const) {
    it(`is refused as ${refusal}: ${text.slice(0, 60)}`, () => expect(parseEndpoint(text, false)).to.equal(refusal));
  }

  it("is taken apart into origin and path, /v1 or not", () => {
    expect(parseEndpoint("https://gpu.example.com", false)).to.deep.equal({
      origin: "https://gpu.example.com",
      basePath: "",
    });
    expect(parseEndpoint("https://gpu.example.com:8443/t4t/", false)).to.deep.equal({
      origin: "https://gpu.example.com:8443",
      basePath: "/t4t",
    });
    expect(parseEndpoint("https://gpu.example.com/v1", false)).to.deep.equal({
      origin: "https://gpu.example.com",
      basePath: "",
    });
  });

  it("may be private where the operator says so, but is never of another scheme", () => {
    expect(parseEndpoint("http://127.0.0.1:22", true)).to.deep.equal({ origin: "http://127.0.0.1:22", basePath: "" });
    expect(parseEndpoint("ftp://127.0.0.1", true)).to.equal("scheme");
  });
});

describe("a name at the moment of connecting", () => {
  let server: Server;
  let port: number;
  let requests: number;

  before(async () => {
    requests = 0;
    server = createServer((request, response) => {
      requests += 1;
      if (request.url === "/redirect") response.writeHead(302, { location: "http://169.254.169.254/" });
      response.end("{}");
    });
    await new Promise<void>((resolve) => {
      server.listen(0, "127.0.0.1", resolve);
    });
    port = (server.address() as AddressInfo).port;
  });

  after(async () => {
    await new Promise<void>((resolve) => {
      server.close(() => resolve());
    });
  });

  for (const [what, addresses] of [
    ["resolves to loopback", ["127.0.0.1"]],
    ["resolves to a public address and a private one", ["8.8.8.8", "127.0.0.1"]],
    ["resolves to the metadata service", ["169.254.169.254"]],
    ["resolves to a mapped address", ["::ffff:127.0.0.1"]],
  ] as const) {
    it(`is not called when it ${what}, however it was resolved before`, async () => {
      const connections = new ProviderConnections({
        clock: systemClock,
        allowPrivate: false,
        connectTimeoutMs: 1000,
        resolve: async () => addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 })),
      });
      const pool = connections.poolFor(`http://gpu.example.com:${port}`);
      const failure = await exchangeShort(pool, { method: "GET", path: "/", timeoutMs: 1000 }).then(
        () => undefined,
        failureOf,
      );
      expect(failure).to.equal("closed_address");
      expect(requests).to.equal(0);
      await connections.close();
    });
  }

  it("that has no address is unreachable, not an accident", async () => {
    const connections = new ProviderConnections({
      clock: systemClock,
      allowPrivate: false,
      connectTimeoutMs: 1000,
      resolve: async () => [],
    });
    const failure = await exchangeShort(connections.poolFor("http://gpu.example.com"), {
      method: "GET",
      path: "/",
      timeoutMs: 1000,
    }).catch(failureOf);
    expect(failure).to.equal("unreachable");
    await connections.close();
  });

  it("leads nowhere by a redirect: that is an answer like any other", async () => {
    const connections = new ProviderConnections({ clock: systemClock, allowPrivate: true, connectTimeoutMs: 1000 });
    const answer = await exchangeShort(connections.poolFor(`http://127.0.0.1:${port}`), {
      method: "GET",
      path: "/redirect",
      timeoutMs: 1000,
    });
    expect(answer.status).to.equal(302);
    expect(requests).to.equal(1);
    await connections.close();
  });

  it("costs no more pools than the bound, however many strangers there are", async () => {
    const connections = new ProviderConnections({
      clock: systemClock,
      allowPrivate: true,
      connectTimeoutMs: 1000,
      maxOrigins: 3,
    });
    for (let index = 0; index < 10; index += 1) connections.poolFor(`http://provider-${index}.example.com`);
    expect(connections.size).to.equal(3);
    await connections.close();
  });
});
