import { expect } from "chai";
import fc from "fast-check";
import { createPolicy, select } from "../../../../gateway/routing/select.ts";
import { RoutingStatistics } from "../../../../gateway/routing/statistics/routing-statistics.ts";
import type { LiveStatistics } from "../../../../gateway/routing/types.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { MutableRegistry } from "../support/mutable-registry.ts";
import { addressOf, testModel } from "../support/registry.ts";
import { requestOf, seeded } from "../support/request.ts";
import { fleet, statusWith } from "../support/sketches.ts";

/** Enough that neighbours are ranked, and not the whole ring. */
const count = 1100;

const rate = fc.constantFrom(undefined, 0, 1, 50, 900);
const step = fc.oneof(
  fc.record({ kind: fc.constant("join" as const), provider: fc.integer({ min: 1, max: 1300 }) }),
  fc.record({ kind: fc.constant("leave" as const), provider: fc.integer({ min: 1, max: 1300 }) }),
  fc.record({
    kind: fc.constant("reports" as const),
    from: fc.integer({ min: 1, max: 1300 }),
    of: fc.constantFrom(1, 40, 900),
    maxInputTps: rate,
    lastMeanInputTps: rate,
    clusters: fc.constantFrom(0, 0, 7),
  }),
  fc.record({ kind: fc.constant("silence" as const), ms: fc.constantFrom(400, 1001) }),
);

/** The same statistics for who asks provider by provider. */
function oneByOne(statistics: RoutingStatistics): LiveStatistics {
  return {
    inFlight: (provider, generation) => statistics.inFlight(provider, generation),
    unconfirmedPosts: (provider) => statistics.unconfirmedPosts(provider),
    measured: (provider, modelId) => statistics.measured(provider, modelId),
    reported: (provider, modelId) => statistics.reported(provider, modelId),
    roundTripMs: (provider) => statistics.roundTripMs(provider),
  };
}

describe("pulsar in a large fleet", () => {
  for (const name of ["pulsar", "pulsar_wait_and_widen"] as const) {
    for (const rendezvous_weight of ["max-input-tps", "last-mean-input-tps"] as const) {
      it(`decides by the ${rendezvous_weight} by slot as by the reports themselves (${name})`, () => {
        fc.assert(
          fc.property(fc.array(step, { minLength: 1, maxLength: 12 }), fc.nat(), (steps, seed) => {
            const clock = new ManualClock();
            const statistics = new RoutingStatistics({ clock, statusStaleAfterMs: 1000 });
            const registry = new MutableRegistry();
            for (const sketch of fleet(count)) registry.put(sketch);
            const policy = createPolicy({ name, rendezvous_weight });
            let published = registry.publish();
            for (const one of steps) {
              if (one.kind === "silence") clock.advance(one.ms);
              else if (one.kind === "reports") {
                for (let index = one.from; index < one.from + one.of; index += 1) {
                  const { maxInputTps, lastMeanInputTps } = one;
                  const clusterId = one.clusters === 0 ? undefined : `engine ${index % one.clusters}`;
                  statistics.report(
                    addressOf(index),
                    statusWith([{ model: testModel, maxInputTps, lastMeanInputTps, clusterId }]),
                  );
                }
              } else {
                const address = addressOf(one.provider);
                if (one.kind === "join") {
                  registry.put({ address, generation: (registry.get(address)?.generation ?? 0) + 1 });
                } else {
                  registry.delete(address);
                  statistics.forgetReport(address);
                }
                published = registry.publish();
              }
              for (let key = 0; key < 3; key += 1) {
                const request = requestOf({ affinityKey: `${key}` });
                const bySlot = select(published, request, policy, statistics, 1, seeded(seed));
                const fresh = createPolicy({ name, rendezvous_weight });
                const direct = select(published, request, fresh, oneByOne(statistics), 1, seeded(seed));
                expect(bySlot).to.deep.equal(direct);
              }
            }
          }),
          { numRuns: 8 },
        );
      });
    }
  }
});
