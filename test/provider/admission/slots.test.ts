import { expect } from "chai";
import * as fc from "fast-check";
import { type SlotLease, Slots } from "../../../provider/admission/slots.ts";

type Step =
  | { readonly kind: "acquire"; readonly backend: string }
  | { readonly kind: "release"; readonly which: number }
  | { readonly kind: "cap"; readonly total: number };

const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    fc.record({ kind: fc.constant("acquire" as const), backend: fc.constantFrom("a", "b") }),
    fc.record({ kind: fc.constant("release" as const), which: fc.nat({ max: 20 }) }),
    fc.record({ kind: fc.constant("cap" as const), total: fc.nat({ max: 4 }) }),
  ),
  { maxLength: 60 },
);

describe("Slots", () => {
  it("never grow past a cap by an acquire, and in equals out, whatever is released how often", () => {
    fc.assert(
      fc.property(steps, (list) => {
        let total = 2;
        const slots = new Slots(() => ({ total, ofBackend: (name) => (name === "b" ? 1 : 0) }));
        const leases: { readonly lease: SlotLease; readonly backend: string; held: boolean }[] = [];
        for (const step of list) {
          if (step.kind === "cap") {
            total = step.total;
          } else if (step.kind === "acquire") {
            const before = slots.running;
            const lease = slots.acquire(step.backend);
            if (lease === undefined) {
              expect((total !== 0 && before >= total) || slots.runningOf("b") >= 1).to.equal(true);
            } else {
              expect(total === 0 || before < total).to.equal(true);
              leases.push({ lease, backend: step.backend, held: true });
            }
          } else {
            const entry = leases[step.which % Math.max(1, leases.length)];
            entry?.lease.release();
            if (entry !== undefined) entry.held = false;
          }
          const held = leases.filter((entry) => entry.held);
          expect(slots.running).to.equal(held.length);
          for (const name of ["a", "b"]) {
            expect(slots.runningOf(name)).to.equal(held.filter((entry) => entry.backend === name).length);
          }
          expect(slots.runningOf("b")).to.be.at.most(1);
        }
        for (const { lease } of leases) lease.release();
        expect(slots.running).to.equal(0);
      }),
    );
  });

  it("with a cap of 0 are without limit", () => {
    const slots = new Slots(() => ({ total: 0, ofBackend: () => 0 }));
    for (let index = 0; index < 1000; index += 1) expect(slots.acquire("a")).to.not.equal(undefined);
    expect(slots.running).to.equal(1000);
  });

  it("below a lowered cap end no stream, and start none until enough have ended", () => {
    let total = 3;
    const slots = new Slots(() => ({ total, ofBackend: () => 0 }));
    const leases = [slots.acquire("a"), slots.acquire("a"), slots.acquire("a")];
    total = 2;
    expect(slots.running).to.equal(3);
    leases[0]?.release();
    expect(slots.acquire("a")).to.equal(undefined);
    leases[1]?.release();
    expect(slots.acquire("a")).to.not.equal(undefined);
  });
});
