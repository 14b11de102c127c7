import { expect } from "chai";
import fc from "fast-check";
import { type Take, type Waiter, WaitingLine } from "../../../gateway/capacity/waiting-line.ts";

class Slots {
  free: number;
  readonly granted: number[] = [];
  constructor(free: number) {
    this.free = free;
  }
}

function waiter(slots: Slots, sequence: number, needs = "any"): Waiter<number> {
  return {
    sequence,
    needs,
    take: (): Take<number> => {
      if (slots.free <= 0) return { kind: "busy" };
      slots.free -= 1;
      return { kind: "granted", grant: sequence };
    },
    settle: (take) => {
      if (take.kind === "granted") slots.granted.push(take.grant);
    },
  };
}

describe("the waiting line", () => {
  it("wakes one waiter per freed slot, never the herd", () => {
    const slots = new Slots(0);
    const line = new WaitingLine<number>();
    for (let sequence = 1; sequence <= 5; sequence += 1) line.join(waiter(slots, sequence));
    slots.free = 1;
    line.pump();
    expect(slots.granted).to.deep.equal([1]);
    expect(line.size).to.equal(4);
    slots.free = 2;
    line.pump();
    expect(slots.granted).to.deep.equal([1, 2, 3]);
  });

  it("asks nobody behind a head that must wait", () => {
    const slots = new Slots(0);
    const line = new WaitingLine<number>();
    let asked = 0;
    for (let sequence = 1; sequence <= 1000; sequence += 1) {
      const one = waiter(slots, sequence);
      line.join({
        ...one,
        take: () => {
          asked += 1;
          return one.take();
        },
      });
    }
    line.pump();
    expect(asked).to.equal(1);
  });

  it("lets no newcomer overtake the line, even when a slot is free at that moment", () => {
    const slots = new Slots(0);
    const line = new WaitingLine<number>();
    line.join(waiter(slots, 1));
    slots.free = 1;
    expect(line.tryFirst(waiter(slots, 2))).to.deep.equal({ kind: "busy" });
    line.pump();
    expect(slots.granted).to.deep.equal([1]);
  });

  it("gives a waiter that comes back its old place", () => {
    const slots = new Slots(0);
    const line = new WaitingLine<number>();
    const early = waiter(slots, 1);
    const late = waiter(slots, 2);
    line.join(late);
    slots.free = 1;
    expect(line.tryFirst(early).kind).to.equal("granted");
    line.join(early);
    expect(line.position(early)).to.equal(1);
    expect(line.position(late)).to.equal(2);
  });

  it("does not let a head that cannot use the slot block those behind it", () => {
    const slots = new Slots(1);
    const line = new WaitingLine<number>();
    line.join({ ...waiter(slots, 1, "not this provider"), take: () => ({ kind: "busy" }) });
    line.join(waiter(slots, 2));
    line.pump();
    expect(slots.granted).to.deep.equal([2]);
    expect(line.size).to.equal(1);
  });

  it("asks everybody in time, however many different needs stand in front, and never many of them at once", () => {
    const own = new Slots(0);
    const line = new WaitingLine<number>();
    let asked = 0;
    const join = (sequence: number, slots: Slots, needs: string): void => {
      const one = waiter(slots, sequence, needs);
      line.join({
        ...one,
        take: () => {
          asked += 1;
          return one.take();
        },
      });
    };
    const full = new Slots(0);
    for (let sequence = 1; sequence <= 100; sequence += 1) join(sequence, full, `owner of key ${sequence}`);
    join(101, own, "free");
    join(102, own, "free");
    line.pump();
    own.free = 1;
    for (let pass = 1; pass <= 15; pass += 1) {
      expect(line.recheckMs, "nobody need wait for the next wake").to.be.at.most(20);
      asked = 0;
      line.pump();
      expect(asked, "a line of a thousand different needs must not stop the process").to.be.at.most(16);
    }
    expect(own.granted, "and the earlier of two with the same needs first").to.deep.equal([101]);
    full.free = 1;
    line.pump();
    expect(full.granted, "the head comes first, whoever was asked last").to.deep.equal([1]);
  });

  it("knows when time alone may help, by the earliest of those that it asked", () => {
    const line = new WaitingLine<number>();
    const waits = (sequence: number, needs: string, recheckMs?: number): void =>
      line.join({
        ...waiter(new Slots(0), sequence, needs),
        take: () => (recheckMs === undefined ? { kind: "busy" } : { kind: "busy", recheckMs }),
      });
    waits(1, "a");
    line.pump();
    expect(line.recheckMs).to.equal(undefined);
    waits(2, "b", 300);
    waits(3, "c", 200);
    line.pump();
    expect(line.recheckMs).to.equal(200);
  });

  it("tells a waiter at once that nobody can serve it any more", () => {
    const line = new WaitingLine<number>();
    const outcomes: string[] = [];
    line.join({
      sequence: 1,
      needs: "",
      take: () => ({ kind: "none" }),
      settle: (take) => outcomes.push(take.kind),
    });
    line.pump();
    expect(outcomes).to.deep.equal(["none"]);
    expect(line.size).to.equal(0);
  });

  it("looks again when capacity comes free in the middle of a pass", () => {
    const slots = new Slots(1);
    const line = new WaitingLine<number>();
    const first = waiter(slots, 1);
    line.join({
      ...first,
      settle: (take) => {
        first.settle(take);
        slots.free += 1;
        line.pump();
      },
    });
    line.join(waiter(slots, 2));
    line.pump();
    expect(slots.granted).to.deep.equal([1, 2]);
  });

  it("keeps order, loses no wake and grants nobody twice, whatever happens in whatever order", () => {
    const command = fc.oneof(
      { weight: 4, arbitrary: fc.constant({ kind: "arrive" as const }) },
      { weight: 2, arbitrary: fc.record({ kind: fc.constant("leave" as const), pick: fc.nat(50) }) },
      {
        weight: 4,
        arbitrary: fc.record({ kind: fc.constant("free" as const), slots: fc.integer({ min: 1, max: 3 }) }),
      },
    );
    fc.assert(
      fc.property(fc.array(command, { maxLength: 200 }), (commands) => {
        const slots = new Slots(0);
        const line = new WaitingLine<number>();
        let sequence = 0;
        let freed = 0;
        const left = new Set<number>();
        for (const one of commands) {
          if (one.kind === "arrive") {
            sequence += 1;
            const arrival = waiter(slots, sequence);
            const take = line.tryFirst(arrival);
            if (take.kind === "granted") arrival.settle(take);
            else line.join(arrival);
          } else if (one.kind === "leave") {
            const leaver = line.waiters()[one.pick];
            if (leaver !== undefined && line.leave(leaver)) left.add(leaver.sequence);
          } else {
            freed += one.slots;
            slots.free += one.slots;
            line.pump();
          }
          // No lost wake: never a waiter and a free slot at once.
          if (line.size > 0) expect(slots.free).to.equal(0);
        }
        expect(new Set(slots.granted).size).to.equal(slots.granted.length);
        expect(slots.granted).to.deep.equal(slots.granted.toSorted((a, b) => a - b));
        expect(slots.granted.length + slots.free).to.equal(freed);
        expect(slots.granted.some((one) => left.has(one))).to.equal(false);
        expect(slots.granted.length + left.size + line.size).to.equal(sequence);
      }),
    );
  });
});
