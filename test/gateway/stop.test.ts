import { expect } from "chai";
import type { ChainPort } from "../../gateway/chain/gateway-chain.ts";
import { startGateway } from "../../gateway/start.ts";
import { FakeChain } from "./support/fake-chain.ts";
import { MemoryJournal } from "./support/memory-journal.ts";
import { testSettings } from "./support/test-settings.ts";

/** A part of the chain side that cannot be closed: a hostile counterpart, as no real one fails on demand. */
function closingBadly(port: ChainPort, error: Error): ChainPort {
  return new Proxy(port, {
    get: (target, name) => {
      if (name === "close") return () => Promise.reject(error);
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}

describe("a gateway that stops", () => {
  it("frees its port and its journal also when the chain side fails to close, and tells of that", async () => {
    const fault = new Error("the queue did not close");
    const journal = new MemoryJournal();
    let closed = false;
    journal.close = async () => {
      closed = true;
    };
    const gateway = await startGateway(testSettings(), {
      journal,
      openChain: async (options) => closingBadly(await new FakeChain().open(options), fault),
      janitorMs: 50,
    });
    const told = await gateway.close(0).then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(told).to.equal(fault);
    expect(closed).to.equal(true);
    const refused = await fetch(`${gateway.url}/healthz`).then(
      () => false,
      () => true,
    );
    expect(refused).to.equal(true);
  });
});
