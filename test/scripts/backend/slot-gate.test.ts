import { expect } from "chai";
import { SlotGate } from "../../../scripts/backend/slot-gate.ts";

const never = new AbortController().signal;

describe("SlotGate", () => {
  it("lets no more in than it has slots, and the others in the order of their coming", async () => {
    const gate = new SlotGate(2);
    const entered: number[] = [];
    const enter = async (number: number) => {
      const release = await gate.acquire(never);
      entered.push(number);
      return release;
    };
    const [first, second, third, fourth] = [enter(1), enter(2), enter(3), enter(4)];
    (await second)();
    const releaseThird = await third;
    expect(entered).to.deep.equal([1, 2, 3]);
    expect([gate.held, gate.waiting]).to.deep.equal([2, 1]);
    releaseThird();
    (await fourth)();
    (await first)();
    expect([gate.held, gate.waiting]).to.deep.equal([0, 0]);
  });

  it("gives a slot back once however often its release is called", async () => {
    const gate = new SlotGate(1);
    const release = await gate.acquire(never);
    release();
    release();
    await gate.acquire(never);
    expect(gate.held).to.equal(1);
  });

  it("takes one who leaves out of the line, so that no slot goes to nobody", async () => {
    const gate = new SlotGate(1);
    const release = await gate.acquire(never);
    const leaving = new AbortController();
    const left = gate.acquire(leaving.signal).then(
      () => "entered",
      (error: unknown) => error,
    );
    const next = gate.acquire(never);
    const reason = new Error("gone");
    leaving.abort(reason);
    expect(await left).to.equal(reason);
    release();
    (await next)();
    expect([gate.held, gate.waiting]).to.deep.equal([0, 0]);
  });

  it("keeps the slot with its holder when the holder's signal fires later", async () => {
    const gate = new SlotGate(1);
    const first = await gate.acquire(never);
    const holder = new AbortController();
    const second = gate.acquire(holder.signal);
    first();
    const release = await second;
    const third = gate.acquire(never);
    holder.abort();
    expect([gate.held, gate.waiting]).to.deep.equal([1, 1]);
    release();
    (await third)();
    expect([gate.held, gate.waiting]).to.deep.equal([0, 0]);
  });
});
