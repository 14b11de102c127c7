import { attack, attempt, parties } from "../support/attack.ts";
import { ethers } from "../support/chain.ts";
import { ENDPOINT } from "../support/market.ts";

/** More strangers than this would only take longer. */
const STRANGERS = 12;

describe("attacks by lists that grow", () => {
  attack("making a post dearer for everybody by registering", ["looks for a provider among all"], async (stage) => {
    const { market, provider, client } = await parties(stage, { parameters: { minStake: 0n } });
    await market.registry.connect(provider.operator).setMaxConcurrentJobs(0);
    const gasOfPost = async (): Promise<bigint> => {
      const terms = await market.terms();
      return (await (await market.escrow.connect(client).postJob(provider.address, terms)).wait())?.gasUsed ?? 0n;
    };
    await gasOfPost();
    const before = await gasOfPost();
    for (let count = 0; count < STRANGERS; count += 1) {
      const stranger = market.account();
      await market.registry.connect(stranger).register(stranger, stranger, ENDPOINT, 0n);
    }
    return (await gasOfPost()) > before + 1_000n;
  });

  attack("a batch of expiries that no block could take", ["takes a batch of any length"], async (stage) => {
    const { market } = await parties(stage);
    return await attempt(market.escrow.expireJobs(Array.from({ length: 51 }, (_, index) => ethers.id(`job ${index}`))));
  });

  attack("a batch of completions that no block could take", ["takes a batch of any length"], async (stage) => {
    const { market, provider } = await parties(stage);
    const item = { usage: { inputTokens: 1n, outputTokens: 1n }, responseHash: ethers.ZeroHash, clientSignature: "0x" };
    const items = Array.from({ length: 51 }, (_, index) => ({ ...item, jobId: ethers.id(`job ${index}`) }));
    return await attempt(market.escrow.connect(provider.operator).completeJobs(items));
  });

  attack("a post that walks through any number of candidates", ["takes any number of candidates"], async (stage) => {
    const { market, provider, client } = await parties(stage);
    const candidates = Array.from({ length: 9 }, () => provider.address);
    return await attempt(market.escrow.connect(client).postJobAny(candidates, await market.terms()));
  });

  attack("a provider with more offerings than a page holds", ["lists any number of offerings"], async (stage) => {
    const { market, provider } = await parties(stage);
    const registry = market.registry.connect(provider.operator);
    for (let count = 1; count < 64; count += 1) await registry.setOffering(`m${count}`, 1n, 1n, 1n);
    return await attempt(registry.setOffering("m64", 1n, 1n, 1n));
  });

  attack("a page that grows with the registry", ["gives pages of any length"], async (stage) => {
    const { market } = await parties(stage);
    return await attempt(market.registry.providersPage(0, 101));
  });

  attack(
    "making every change of an operator dearer by adding markets",
    ["allows any number of markets"],
    async (stage) => {
      const market = await stage.deploy();
      const [one = "", ...others] = await market.contracts(8);
      for (const other of others) await market.registry.setMarket(other, true);
      return await attempt(market.registry.setMarket(one, true));
    },
  );
});
