import { expect } from "chai";
import type { Address } from "viem";
import { Chooser } from "../support/choose.ts";
import { testModel } from "../support/registry.ts";
import { fleet, reportOf } from "../support/sketches.ts";

describe("a key of which no near neighbour fits, while several hundred of very many do", function () {
  this.timeout(60_000);
  // Of 20,000, 350 hold the prompt: of some keys none is among the 256 that are looked at first.
  const providers = fleet(20_000, (index) => ({
    models: { [testModel]: { contextLength: index % 57 === 7 ? 200_000 : 8192 } },
  }));

  for (const name of ["consistent_hash", "pulsar", "pulsar_wait_and_widen"] as const) {
    it(`has one provider with ${name}, whatever is drawn: else each of its requests computed its prompt anew`, () => {
      const chooser = new Chooser({ name }, providers);
      Object.assign(chooser.statistics, { totalInFlight: () => 0 });
      chooser.statistics.reported = () => reportOf({ maxInputTps: 100, lastMeanInputTps: 100 });
      const first = new Map<string, Address | undefined>();
      for (let round = 0; round < 8; round += 1) {
        for (let index = 0; index < 300; index += 1) {
          const affinityKey = `conversation ${index}`;
          const chosen = chooser.first({ affinityKey, inputTokens: 100_000 });
          if (round === 0) first.set(affinityKey, chosen);
          else expect(chosen, affinityKey).to.equal(first.get(affinityKey));
        }
      }
      expect(new Set(first.values()).size, "different keys, different providers").to.be.greaterThan(150);
    });
  }
});

describe("a request that few of very many fit, of whom pulsar has not the statistic that it ranks by", function () {
  this.timeout(60_000);
  const isLong = (index: number): boolean => index === 7 || index === 11_000;
  const contexts = (index: number) => ({ contextLength: isLong(index) ? 200_000 : 8192 });
  const long = { affinityKey: "k", inputTokens: 100_000 };

  for (const name of ["pulsar", "pulsar_wait_and_widen"] as const) {
    it(`is served by them with ${name} while nothing was measured there, as by anybody new`, () => {
      const chooser = new Chooser(
        { name },
        fleet(20_000, (index) => ({ models: { [testModel]: contexts(index) } })),
      );
      const unknown = new Set(chooser.providers.flatMap(({ address }, index) => (isLong(index) ? [address] : [])));
      chooser.statistics.reported = (provider) =>
        unknown.has(provider) ? undefined : reportOf({ maxInputTps: 100, lastMeanInputTps: 100 });
      const { verdict, ranked, reason } = chooser.select(long);
      expect([verdict, reason]).to.deep.equal(["ready", "measure_unknown"]);
      expect(unknown.has(ranked[0]!.provider)).to.equal(true);
    });

    it(`waits for them with ${name} while only the other statistic is known of them`, () => {
      const chooser = new Chooser(
        { name },
        fleet(20_000, (index) => ({ models: { [testModel]: contexts(index) } })),
      );
      const old = new Set(chooser.providers.flatMap(({ address }, index) => (isLong(index) ? [address] : [])));
      chooser.statistics.reported = (provider) =>
        reportOf({ maxInputTps: old.has(provider) ? undefined : 100, lastMeanInputTps: 100 });
      const { verdict, excludedCounts } = chooser.select(long);
      expect([verdict, excludedCounts.no_statistic]).to.deep.equal(["busy", 2]);
    });

    it(`ranks them with ${name} by another model of theirs for a request without a model, as it ranks all others`, () => {
      const models = (index: number) => ({ reported: { contextLength: 8192 }, served: contexts(index) });
      const chooser = new Chooser(
        { name },
        fleet(20_000, (index) => ({ models: models(index) })),
      );
      const rates = reportOf({ maxInputTps: 100, lastMeanInputTps: 100 });
      Object.assign(chooser.statistics, {
        reported: (_: Address, modelId: string) => (modelId === "reported" ? rates : undefined),
      });
      const { verdict, ranked } = chooser.select({ ...long, modelId: undefined });
      expect(verdict, "a 404 though two serve it").to.equal("ready");
      expect(ranked.map(({ modelId }) => modelId)).to.include("served");
    });
  }
});

describe("a request that nobody fits", () => {
  for (const name of ["pulsar", "pulsar_wait_and_widen"] as const) {
    it(`fails at once with ${name}, whoever has no statistic: no status makes a context longer`, () => {
      const chooser = new Chooser(
        { name },
        fleet(3, () => ({ models: { [testModel]: { contextLength: 1000 } } })),
      );
      for (const maxInputTps of [undefined, 100]) {
        chooser.statistics.reported = (provider) =>
          reportOf({
            maxInputTps: provider === chooser.providers[0]?.address ? maxInputTps : 100,
            lastMeanInputTps: 100,
          });
        const { verdict, excludedCounts } = chooser.select({ inputTokens: 100_000 });
        expect([verdict, excludedCounts]).to.deep.equal(["none", { context_too_small: 3 }]);
      }
    });
  }
});
