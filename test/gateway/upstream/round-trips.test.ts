import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { expect } from "chai";
import { systemClock } from "../../../chain/system-clock.ts";
import { ProviderConnections } from "../../../gateway/upstream/connections.ts";
import { RoundTrips } from "../../../gateway/upstream/round-trips.ts";
import { GuardedStatusTransport } from "../../../gateway/upstream/status-transport.ts";

describe("round trips to providers", () => {
  let server: Server;
  let connections: ProviderConnections;

  beforeEach(async () => {
    server = createServer((_request, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.flushHeaders();
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    connections = new ProviderConnections({ clock: systemClock, allowPrivate: true, connectTimeoutMs: 1000 });
  });

  afterEach(async () => {
    await connections.close();
    server.closeAllConnections();
    server.close();
  });

  it("are known of every provider whose status is followed: without them a far provider looks as near as the next room", async () => {
    const transport = new GuardedStatusTransport({ connections, allowPrivate: true });
    const abort = new AbortController();
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/status/events`;
    const stream = await transport.open({ url, signal: abort.signal });
    expect(stream.roundTripMs?.()).to.be.greaterThan(0).and.lessThan(1000);
    abort.abort();
  });

  it("leave out the time that a name takes to resolve, which no later request spends", async () => {
    const resolving = new ProviderConnections({
      clock: systemClock,
      allowPrivate: false,
      connectTimeoutMs: 1000,
      resolve: async () => [],
    });
    const origin = "http://gpu.example.com";
    await resolving
      .poolFor(origin)
      .request({ method: "GET", path: "/" })
      .catch(() => undefined);
    expect(resolving.roundTripMs(origin), "a name that failed is no handshake").to.equal(undefined);
    await resolving.close();
  });

  it("are the shortest of the newest handshakes: a process that is busy for a moment makes nobody far", () => {
    const trips = new RoundTrips(10);
    for (const ms of [400, 31, 30, 90]) trips.add("a", ms);
    expect(trips.of("a")).to.equal(30);
  });

  it("follow a provider that has moved away", () => {
    const trips = new RoundTrips(10);
    trips.add("a", 1);
    for (let handshake = 0; handshake < 8; handshake += 1) trips.add("a", 80);
    expect(trips.of("a")).to.equal(80);
  });

  it("are remembered of a bounded number of origins, as strangers name them", () => {
    const trips = new RoundTrips(3);
    for (let origin = 0; origin < 10; origin += 1) trips.add(`origin ${origin}`, 1);
    expect(trips.of("origin 6")).to.equal(undefined);
    expect(trips.of("origin 9")).to.equal(1);
  });
});
