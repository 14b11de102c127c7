import { expect } from "chai";
import OpenAI from "openai";
import { OpenAI as OpenAI6 } from "openai-6";
import { paymentFor } from "../../protocol/money.ts";
import { type LocalNetwork, startLocalNetwork } from "../../scripts/network/local-network.ts";
import { contractEvents, escrowAccount, providerOnChain, testModel, testOffering } from "../support/network.ts";
import { until } from "../support/until.ts";

const messages = [{ role: "user" as const, content: "Who is paid for a streamed answer, and when?" }];
const request = { model: testModel, messages, max_completion_tokens: 40, seed: 7, temperature: 0 } as const;

describe("a job through gateway, provider and backend", function () {
  this.timeout(120_000);
  let network: LocalNetwork;
  let gatewayUrl: string;

  before(async () => {
    network = await startLocalNetwork({
      providers: [{ name: "provider-1", maxConcurrentJobs: 2, offerings: [testOffering()] }],
      backend: { engine: "text", models: ["tiny"], tokenDelayMs: 1 },
    });
    gatewayUrl = network.gateways[0]?.url ?? "";
  });

  after(async () => {
    await network.stop();
  });

  async function backendAnswer() {
    const direct = new OpenAI({ baseURL: `${network.backendUrl}/v1`, apiKey: "none", maxRetries: 0 });
    return await direct.chat.completions.create({ ...request, model: "tiny" });
  }

  async function settledEvent(jobId: string) {
    return await until("the job is settled on chain", async () => {
      const { escrow } = await contractEvents(network);
      return escrow.find((event) => event.eventName === "JobCompleted" && event.args.jobId === jobId);
    });
  }

  for (const [version, Client] of [
    ["newest openai", OpenAI],
    // Both majors have the calls used here with the same types, but a union of classes is not callable.
    ["openai 6", OpenAI6 as unknown as typeof OpenAI],
  ] as const) {
    it(`streams the backend's own text to the ${version} client and settles its usage to the token`, async () => {
      const expected = await backendAnswer();
      const client = new Client({ baseURL: `${gatewayUrl}/v1`, apiKey: "any", maxRetries: 0 });
      const { data: stream, response } = await client.chat.completions
        .create({ ...request, stream: true, stream_options: { include_usage: true } })
        .withResponse();
      let text = "";
      let usage: { prompt_tokens: number; completion_tokens: number } | undefined;
      let chunks = 0;
      for await (const chunk of stream) {
        chunks += 1;
        text += chunk.choices[0]?.delta.content ?? "";
        if (chunk.usage) usage = chunk.usage;
      }
      expect(text).to.equal(expected.choices[0]?.message.content);
      expect(chunks, "one chunk is no stream").to.be.greaterThan(10);
      expect(usage).to.include({
        prompt_tokens: expected.usage?.prompt_tokens,
        completion_tokens: expected.usage?.completion_tokens,
      });
      const settled = await settledEvent(response.headers.get("x-t4t-job-id") ?? "");
      if (settled.eventName !== "JobCompleted") throw new Error("not settled");
      expect(settled.args.signed).to.equal(true);
      expect(settled.args.inputTokens).to.equal(BigInt(usage?.prompt_tokens ?? -1));
      expect(settled.args.outputTokens).to.equal(BigInt(usage?.completion_tokens ?? -1));
      const { inputPrice, outputPrice } = testOffering();
      const price = paymentFor(
        { inputPrice, outputPrice },
        { inputTokens: usage?.prompt_tokens ?? 0, outputTokens: usage?.completion_tokens ?? 0 },
      );
      expect(settled.args.payment).to.equal(price);
      expect(price > 0n).to.equal(true);
    });

    it(`answers the ${version} client without a stream with the same text and usage`, async () => {
      const expected = await backendAnswer();
      const client = new Client({ baseURL: `${gatewayUrl}/v1`, apiKey: "any", maxRetries: 0 });
      const { data, response } = await client.chat.completions.create({ ...request, stream: false }).withResponse();
      expect(data.choices[0]?.message.content).to.equal(expected.choices[0]?.message.content);
      expect(data.usage?.total_tokens).to.equal(expected.usage?.total_tokens);
      const settled = await settledEvent(response.headers.get("x-t4t-job-id") ?? "");
      if (settled.eventName !== "JobCompleted") throw new Error("not settled");
      expect(settled.args.outputTokens).to.equal(BigInt(data.usage?.completion_tokens ?? -1));
    });
  }

  it("sends a client that did not ask for usage no usage chunk", async () => {
    const client = new OpenAI({ baseURL: `${gatewayUrl}/v1`, apiKey: "any", maxRetries: 0 });
    const stream = await client.chat.completions.create({ ...request, stream: true });
    for await (const chunk of stream) {
      expect(chunk.choices, "a chunk without choices breaks strict clients").to.have.length.greaterThan(0);
    }
  });

  it("lists the model and finds it by its id, raw and percent-encoded", async () => {
    const list = (await (await fetch(`${gatewayUrl}/v1/models`)).json()) as { data: { id: string }[] };
    expect(list.data.map(({ id }) => id)).to.deep.equal([testModel]);
    for (const id of [testModel, encodeURIComponent(testModel)]) {
      const response = await fetch(`${gatewayUrl}/v1/models/${id}`);
      expect(response.status).to.equal(200);
      expect(((await response.json()) as { id: string }).id).to.equal(testModel);
    }
  });

  it("leaves no slot taken and no money locked", async () => {
    const provider = network.providers[0];
    const gateway = network.gateways[0];
    if (provider === undefined || gateway === undefined) throw new Error("network incomplete");
    await until("the slot is freed", async () => (await providerOnChain(network, provider.address)).openJobs === 0);
    expect((await escrowAccount(network, gateway.participant.account.address)).locked).to.equal(0n);
    const { escrow } = await contractEvents(network);
    const paid = escrow.reduce(
      (sum, event) => (event.eventName === "JobCompleted" ? sum + (event.args.payment ?? 0n) : sum),
      0n,
    );
    expect((await escrowAccount(network, provider.address)).free).to.equal(paid);
  });
});
