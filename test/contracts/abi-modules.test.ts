import { expect } from "chai";
import { abiModules, readAbiModule, renderAbiModule } from "../../scripts/artifacts.ts";

describe("the ABIs and bytecodes that the runtime imports", () => {
  for (const module of abiModules) {
    it(`are the compiler's for ${module.contract}, so that no node speaks to a contract of yesterday`, async () => {
      const committed = await readAbiModule(module);
      expect(committed === (await renderAbiModule(module)), `chain/abi/${module.file}: run npm run artifacts`).to.equal(
        true,
      );
    });
  }

  it("let a client of the escrow read the refusals that come through it from the registry", async () => {
    const { jobEscrowAbi } = await import("../../chain/abi/job-escrow.ts");
    const errors = jobEscrowAbi.flatMap((entry) => (entry.type === "error" ? [entry.name] : []));
    expect(errors).to.include.members([
      "NotMarket",
      "EnforcedPause",
      "ProviderNotRegistered",
      "ProviderInactive",
      "ProviderStale",
      "OfferingNotFound",
      "PriceAboveLimit",
      "ProviderAtCapacity",
      "InsufficientStake",
    ]);
  });
});
