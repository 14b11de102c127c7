import { setImmediate as turn } from "node:timers/promises";
import { expect } from "chai";
import { KeyedLimit } from "../../../gateway/jobs/keyed-limit.ts";
import { ManualClock } from "../support/manual-clock.ts";

describe("a limit by key", () => {
  it("lets so many of one key run at once, in order, and no key wait for another", async () => {
    const limit = new KeyedLimit({ clock: new ManualClock(), most: 2, patienceMs: 1000 });
    const begun: string[] = [];
    const ends = new Map<string, () => void>();
    const run = (key: string, name: string) =>
      limit.run(key, async () => {
        begun.push(name);
        const { promise, resolve } = Promise.withResolvers<void>();
        ends.set(name, resolve);
        await promise;
      });
    const all = [run("a", "a1"), run("a", "a2"), run("a", "a3"), run("a", "a4"), run("b", "b1")];
    await turn();
    expect(begun).to.deep.equal(["a1", "a2", "b1"]);
    ends.get("a2")?.();
    await turn();
    expect(begun).to.deep.equal(["a1", "a2", "b1", "a3"]);
    for (const name of ["a1", "a3", "b1"]) ends.get(name)?.();
    await turn();
    ends.get("a4")?.();
    await Promise.all(all);
    const last = run("a", "a5");
    await turn();
    expect(begun, "a key whose work is done is as new").to.include("a5");
    ends.get("a5")?.();
    await last;
  });

  it("goes on after work that failed", async () => {
    const limit = new KeyedLimit({ clock: new ManualClock(), most: 1, patienceMs: 1000 });
    const failed = limit.run("a", async () => await Promise.reject(new Error("no")));
    const next = limit.run("a", async () => await Promise.resolve("done"));
    expect(await failed.catch((error: unknown) => String(error))).to.equal("Error: no");
    expect(await next).to.equal("done");
  });

  it("does not keep in line what has waited too long, and gives its turn to the next", async () => {
    const clock = new ManualClock();
    const limit = new KeyedLimit({ clock, most: 1, patienceMs: 1000 });
    const held = Promise.withResolvers<string>();
    const holder = limit.run("a", async () => await held.promise);
    const late = limit.run("a", async () => await Promise.resolve("late"));
    clock.advance(600);
    const next = limit.run("a", async () => await Promise.resolve("next"));
    clock.advance(600);
    expect(await late).to.equal(undefined);
    held.resolve("held");
    expect(await holder).to.equal("held");
    expect(await next).to.equal("next");
    expect(clock.pending).to.equal(0);
  });
});
