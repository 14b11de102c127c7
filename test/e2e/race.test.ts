import { expect } from "chai";
import { erc20Abi } from "viem";
import { type LocalNetwork, startLocalNetwork } from "../../scripts/network/local-network.ts";
import {
  chainReader,
  contractEvents,
  escrowAccount,
  providerOnChain,
  testModel,
  testOffering,
} from "../support/network.ts";
import { until } from "../support/until.ts";

const jobs = 50;

describe("two gateways with wallets of their own at providers with three slots in all", function () {
  this.timeout(180_000);
  let network: LocalNetwork;
  let supplyBefore: bigint;
  let answers: readonly { readonly status: number; readonly text: string; readonly jobId: string | null }[];

  before(async () => {
    network = await startLocalNetwork({
      providers: [
        { name: "one", maxConcurrentJobs: 1, offerings: [testOffering(1n)] },
        { name: "two", maxConcurrentJobs: 2, offerings: [testOffering(1n)] },
      ],
      gateways: [
        { name: "gateway-1", port: 0 },
        { name: "gateway-2", port: 0 },
      ],
      backend: { engine: "text", models: ["tiny"], tokenDelayMs: 2 },
    });
    supplyBefore = await money();
    const urls = network.gateways.map(({ url }) => url);
    answers = await Promise.all(
      Array.from({ length: jobs }, async (_, index) => {
        const response = await fetch(`${urls[index % urls.length]}/v1/chat/completions`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({
            model: testModel,
            messages: [{ role: "user", content: `Job ${index}` }],
            max_tokens: 12,
          }),
        });
        return { status: response.status, text: await response.text(), jobId: response.headers.get("x-t4t-job-id") };
      }),
    );
    await until(
      "every slot is freed",
      async () =>
        (
          await Promise.all(
            network.providers.map(async ({ address }) => (await providerOnChain(network, address)).openJobs),
          )
        ).every((n) => n === 0),
      60_000,
    );
  });

  after(async () => {
    await network.stop();
  });

  /** All the money there is: in the wallets of everyone who takes part, in the escrow and in the registry. */
  async function money(): Promise<bigint> {
    const reader = chainReader(network);
    const { token, escrow, registry } = network.deployment;
    const holders = [
      escrow,
      registry,
      network.funder.account.address,
      ...network.providers.map(({ address }) => address),
      ...network.gateways.map(({ participant }) => participant.account.address),
    ];
    let sum = 0n;
    for (const holder of holders) {
      sum += await reader.readContract({ address: token, abi: erc20Abi, functionName: "balanceOf", args: [holder] });
    }
    return sum;
  }

  it("serves every job", () => {
    for (const { status, text } of answers) expect(status, text).to.equal(200);
  });

  it("never opens more jobs than a provider's cap, at any event of any block", async () => {
    const { registry } = await contractEvents(network);
    let changes = 0;
    for (const event of registry) {
      if (event.eventName !== "SlotsChanged") continue;
      changes += 1;
      const cap = event.args.maxConcurrentJobs ?? 0;
      expect(cap).to.be.greaterThan(0);
      expect(event.args.openJobs).to.be.at.most(cap);
    }
    // One for each post; a batch of completions may free several slots of a provider with one event.
    expect(changes).to.be.greaterThan(jobs);
  });

  it("posts no job twice and ends each exactly once", async () => {
    const { escrow } = await contractEvents(network);
    const posted = escrow.filter((event) => event.eventName === "JobPosted").map((event) => event.args.jobId);
    expect(new Set(posted).size).to.equal(posted.length);
    expect(posted).to.have.length(jobs);
    const ended = escrow
      .filter((event) =>
        ["JobCompleted", "JobDeclined", "JobCancelled", "JobExpired", "JobSlashed"].includes(event.eventName),
      )
      .map((event) => (event.args as { jobId?: string }).jobId);
    expect(ended).to.have.length(posted.length);
    expect(new Set(ended)).to.deep.equal(new Set(posted));
  });

  it("loses no money: the sum of all balances is what it was, and the escrow holds exactly what it owes", async () => {
    expect(await money()).to.equal(supplyBefore);
    const owed = await Promise.all(
      [
        ...network.providers.map(({ address }) => address),
        ...network.gateways.map(({ participant }) => participant.account.address),
      ].map(async (address) => await escrowAccount(network, address)),
    );
    const held = await chainReader(network).readContract({
      address: network.deployment.token,
      abi: erc20Abi,
      functionName: "balanceOf",
      args: [network.deployment.escrow],
    });
    expect(owed.reduce((sum, { free }) => sum + free, 0n)).to.equal(held);
    expect(owed.reduce((sum, { locked }) => sum + locked, 0n)).to.equal(0n);
  });
});
