import { expect } from "chai";
import { systemClock } from "../../../chain/system-clock.ts";
import type { Clock } from "../../../protocol/clock.ts";
import { chunk, hang, head } from "../../support/scripted-upstream.ts";
import { until } from "../../support/until.ts";
import { chunkData, frame } from "../../support/upstream-scripts.ts";
import { acknowledged, scriptedModel } from "../support/scripted-provider.ts";
import { postJson, startTestGateway } from "../support/test-gateway.ts";

/** Real time that knows which of its timers still run. */
function watchedClock(): { readonly clock: Clock; readonly pending: () => number } {
  const pending = new Set<symbol>();
  const after = (delayMs: number, callback: () => void): (() => void) => {
    const timer = Symbol(String(delayMs));
    pending.add(timer);
    const cancel = systemClock.after(delayMs, () => {
      pending.delete(timer);
      callback();
    });
    return () => {
      pending.delete(timer);
      cancel();
    };
  };
  return { clock: { ...systemClock, after }, pending: () => pending.size };
}

describe("a gateway that closes", () => {
  it("leaves no timer behind, not even that of a talk with a provider about the part that a client got", async () => {
    const { clock, pending } = watchedClock();
    const begun = [
      head(200, { "content-type": "text/event-stream" }),
      chunk(frame(chunkData({ content: "One" }))),
      hang,
    ];
    const place = await startTestGateway({ clock, providers: [acknowledged(begun)] });
    const client = new AbortController();
    const response = await postJson(
      `${place.url}/v1/chat/completions`,
      { model: scriptedModel, messages: [{ role: "user", content: "Hello" }], stream: true },
      { signal: client.signal },
    );
    await response.body?.getReader().read();
    client.abort();
    await until("the gateway asks for the part", async () =>
      (await (await fetch(`${place.url}/metrics`)).text()).includes("t4t_gateway_pending_settlements 1"),
    );
    await place.close();
    expect(pending()).to.equal(0);
  });
});
