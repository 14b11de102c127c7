import { expect } from "chai";
import type { Address } from "viem";
import { type LocalNetwork, type RunningProvider, startLocalNetwork } from "../../scripts/network/local-network.ts";
import { testModel, testOffering } from "../support/network.ts";
import { until } from "../support/until.ts";

const conversations = 12;
/** Answers of two choices tell no throughput: the weights stay the initial ones, and no key has a cause to move. */
const unmeasured = { messages: [{ role: "user", content: "Hello" }], max_tokens: 4, n: 2 } as const;

describe("routing over four providers", function () {
  this.timeout(180_000);
  let network: LocalNetwork;
  let url: string;
  /** The newest process of a provider that was stopped. */
  const restarted = new Map<Address, RunningProvider>();

  before(async () => {
    network = await startLocalNetwork({
      providers: [1, 2, 3, 4].map((number) => ({
        name: `provider-${number}`,
        maxConcurrentJobs: 8,
        initialInputTps: 1000 * number,
        offerings: [testOffering(BigInt(number))],
      })),
      backend: { engine: "text", models: ["tiny"] },
      gateways: [
        {
          name: "gateway-1",
          port: 0,
          env: { T4T_ALLOWED_STRATEGIES: "cheapest,least_inflight,consistent_hash,prefix_hash,pulsar,wait_and_widen" },
        },
      ],
    });
    url = network.gateways[0]?.url ?? "";
  });

  after(async () => {
    await network.stop();
  });

  /** Asks once and returns who served it. */
  async function servedBy(body: object, headers: Record<string, string>): Promise<Address> {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify({ ...unmeasured, ...body }),
    });
    const text = await response.text();
    expect(response.status, text).to.equal(200);
    return response.headers.get("x-t4t-provider") as Address;
  }

  async function owners(policy: string): Promise<Map<string, Address>> {
    const result = new Map<string, Address>();
    for (let conversation = 0; conversation < conversations; conversation += 1) {
      const key = `conversation-${conversation}`;
      const headers = { "x-t4t-routing": policy, "x-t4t-affinity-key": key };
      result.set(key, await servedBy({ model: testModel }, headers));
    }
    return result;
  }

  it("follows the policy that the request names", async () => {
    const [cheapest] = network.providers;
    for (let count = 0; count < 4; count += 1) {
      expect(await servedBy({ model: testModel }, { "x-t4t-routing": "cheapest" })).to.equal(cheapest?.address);
    }
    const spread = new Set<string>();
    for (let count = 0; count < 24; count += 1) {
      spread.add(await servedBy({ model: testModel }, { "x-t4t-routing": "least_inflight" }));
    }
    expect(spread.size, "a weighted draw that always gives the same provider is no draw").to.be.greaterThan(1);
  });

  it("refuses a policy that the operator has not allowed, and one that does not exist", async () => {
    for (const policy of ["manual", "fastest"]) {
      const response = await fetch(`${url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json", "x-t4t-routing": policy },
        body: JSON.stringify({ model: testModel, messages: [{ role: "user", content: "Hello" }] }),
      });
      expect(response.status).to.equal(400);
      expect(((await response.json()) as { error: { param: string } }).error.param).to.equal("x-t4t-routing");
    }
  });

  it("serves a request without a model, or for any model, through the wildcard ring and names the model in the answer", async () => {
    const headers = { "x-t4t-routing": "consistent_hash", "x-t4t-affinity-key": "k", "x-t4t-debug": "true" };
    const providers = new Set<string | null>();
    for (const body of [{}, { model: "auto" }]) {
      const response = await fetch(`${url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify({ ...unmeasured, ...body }),
      });
      const answer = (await response.json()) as { model: string };
      expect(response.status, JSON.stringify(answer)).to.equal(200);
      expect(response.headers.get("x-t4t-model")).to.equal(testModel);
      expect(answer.model, "by the name that can be asked for again").to.equal(testModel);
      const decision = JSON.parse(response.headers.get("x-t4t-decision") ?? "null") as object;
      expect(decision).to.include({ policy: "consistent_hash", reason: "ring_owner" });
      providers.add(response.headers.get("x-t4t-provider"));
    }
    expect(providers.size, "one key, one provider").to.equal(1);
  });

  it("says why it decided when asked", async () => {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-t4t-routing": "cheapest", "x-t4t-debug": "true" },
      body: JSON.stringify({ ...unmeasured, model: testModel }),
    });
    await response.text();
    const decision = JSON.parse(response.headers.get("x-t4t-decision") ?? "null") as { policy: string; reason: string };
    expect(decision.policy).to.equal("cheapest");
    expect(decision.reason).to.be.a("string").and.not.equal("");
    const job = await fetch(`${url}/v1/jobs/${response.headers.get("x-t4t-job-id") ?? ""}`);
    expect(((await job.json()) as { decision: { policy: string } }).decision.policy).to.equal("cheapest");
  });

  it("shows both throughput statistics of the chosen provider, as it signed them", async () => {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-t4t-routing": "pulsar", "x-t4t-debug": "true" },
      body: JSON.stringify({ ...unmeasured, model: testModel }),
    });
    await response.text();
    const decision = JSON.parse(response.headers.get("x-t4t-decision") ?? "null") as {
      ranked: { provider: string; lastMeanInputTps?: number; maxInputTps?: number }[];
    };
    const [chosen] = decision.ranked;
    expect(chosen?.provider).to.equal(response.headers.get("x-t4t-provider"));
    expect(chosen?.lastMeanInputTps).to.be.greaterThan(0);
    expect(chosen?.maxInputTps).to.be.at.least(chosen?.lastMeanInputTps ?? Number.POSITIVE_INFINITY);
    const job = await fetch(`${url}/v1/jobs/${response.headers.get("x-t4t-job-id") ?? ""}`);
    expect(((await job.json()) as { decision: unknown }).decision).to.deep.equal(decision);
    const metrics = await (await fetch(`${url}/metrics`)).text();
    expect(metrics).to.match(/^t4t_gateway_decisions_total\{policy="pulsar",reason="no_key",verdict="ready"\} [1-9]/m);
    expect(metrics).to.match(/^t4t_provider_max_input_tps\{[^}]*\} [1-9]/m);
  });

  for (const policy of ["consistent_hash", "pulsar"]) {
    it(`${policy} keeps each conversation on one provider, moves only its keys when that one leaves, and takes them back to it`, async () => {
      const before = await owners(policy);
      expect(await owners(policy), "a conversation moved without cause").to.deep.equal(before);
      expect(new Set(before.values()).size).to.be.greaterThan(1);
      const leaver = network.providers.find(({ address }) => [...before.values()].includes(address));
      if (leaver === undefined) throw new Error("nobody owns a conversation");
      await (restarted.get(leaver.address) ?? leaver).child.stop(10_000);
      const after = await owners(policy);
      for (const [key, owner] of before) {
        if (owner === leaver.address) expect(after.get(key)).to.not.equal(leaver.address);
        else expect(after.get(key), `${key} moved though its owner stayed`).to.equal(owner);
      }
      restarted.set(leaver.address, await leaver.restart());
      await until(
        "everybody is where it was",
        async () => {
          const now = await owners(policy);
          return [...before].every(([key, owner]) => now.get(key) === owner);
        },
        60_000,
        500,
      );
    });
  }
});

describe("routing by throughput in a market that nobody has measured yet", function () {
  this.timeout(180_000);
  let network: LocalNetwork;

  before(async () => {
    network = await startLocalNetwork({
      providers: [1, 2, 3].map((number) => ({
        name: `provider-${number}`,
        maxConcurrentJobs: 4,
        offerings: [testOffering(BigInt(number))],
      })),
      backend: { engine: "text", models: ["tiny"] },
      gateways: [
        {
          name: "gateway-1",
          port: 0,
          env: { T4T_SELECTION_STRATEGY: "pulsar", T4T_ALLOWED_STRATEGIES: "pulsar,pulsar_wait_and_widen" },
        },
      ],
    });
  });

  after(async () => {
    await network.stop();
  });

  const ask = async (policy: string, user: string): Promise<Response> => {
    const response = await fetch(`${network.gateways[0]?.url ?? ""}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-t4t-routing": policy, "x-t4t-debug": "true" },
      body: JSON.stringify({
        model: testModel,
        messages: [{ role: "user", content: "Hello" }],
        max_tokens: 4,
        user,
        stream: true,
      }),
    });
    expect(response.status, await response.text()).to.equal(200);
    return response;
  };

  it("serves from the first request on, by pulsar and with widening, and all providers alike", async () => {
    const first = await ask("pulsar", "conversation");
    const decision = JSON.parse(first.headers.get("x-t4t-decision") ?? "null") as { reason: string };
    expect(decision.reason).to.equal("no_statistics");
    const providers = new Set<string | null>();
    for (const policy of ["pulsar", "pulsar_wait_and_widen"]) {
      for (let request = 0; request < 6; request += 1) {
        providers.add((await ask(policy, `conversation ${request}`)).headers.get("x-t4t-provider"));
      }
    }
    expect(providers.size, "one provider had all the work").to.be.greaterThan(1);
  });

  it("comes to have its statistics of streamed answers, though no prompt takes the engine 10 ms", async () => {
    const measured = async (): Promise<boolean> =>
      /^t4t_provider_max_input_tps\{[^}]*\} [1-9]/m.test(
        await (await fetch(`${network.gateways[0]?.url ?? ""}/metrics`)).text(),
      );
    let requests = 0;
    while (!(await measured()) && requests < 300) {
      for (let one = 0; one < 10; one += 1) await ask("pulsar", `conversation ${requests + one}`);
      requests += 10;
    }
    expect(await measured(), `after ${requests} requests`).to.equal(true);
  });
});
