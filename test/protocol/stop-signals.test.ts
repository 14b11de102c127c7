import { EventEmitter } from "node:events";
import { expect } from "chai";
import { onStopSignals } from "../../protocol/stop-signals.ts";

describe("a process that is asked to stop", () => {
  let now: number;
  let done: string[];
  let source: EventEmitter;

  beforeEach(() => {
    now = 1000;
    done = [];
    source = new EventEmitter();
    onStopSignals(
      source,
      { monotonic: () => now },
      { stop: () => done.push("stop"), stopAtOnce: () => done.push("stop at once") },
    );
  });

  it("drains at the first signal, whichever it is", () => {
    source.emit("SIGTERM");
    expect(done).to.deep.equal(["stop"]);
  });

  it("takes one Ctrl-C that comes from the terminal and from npm for one, so that the drain is not cut short", () => {
    source.emit("SIGINT");
    source.emit("SIGINT");
    now += 400;
    source.emit("SIGTERM");
    expect(done).to.deep.equal(["stop"]);
  });

  it("stops at once at the second Ctrl-C", () => {
    source.emit("SIGINT");
    now += 500;
    source.emit("SIGINT");
    expect(done).to.deep.equal(["stop", "stop at once"]);
  });
});
