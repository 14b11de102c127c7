import { join } from "node:path";
import { expect } from "chai";
import { erc20Abi, type Hex } from "viem";
import { type PrivateKeyAccount, privateKeyToAccount } from "viem/accounts";
import { readGatewaySettings } from "../../gateway/settings.ts";
import { startGateway } from "../../gateway/start.ts";
import { bodyHash } from "../../protocol/body-hash.ts";
import { acknowledgementTypedData } from "../../protocol/messages.ts";
import { paymentFor } from "../../protocol/money.ts";
import type { Usage } from "../../protocol/usage.ts";
import { usageCommentPrefix, wireHeaders } from "../../protocol/wire.ts";
import { type LocalNetwork, type RunningGateway, startLocalNetwork } from "../../scripts/network/local-network.ts";
import { rpcCall } from "../support/chain.ts";
import {
  acknowledging,
  type HostileJob,
  type HostileProvider,
  type HostileScript,
  startHostileProvider,
  withHeader,
} from "../support/hostile-provider.ts";
import { chainReader, contractEvents, escrowAccount, providerOnChain, testOffering } from "../support/network.ts";
import { chunk, end, hang, head, hold, type Script } from "../support/scripted-upstream.ts";
import { until } from "../support/until.ts";
import {
  chunkData,
  earlyFaults,
  endlessLine,
  errorAnswer,
  frame,
  goodJson,
  jsonAnswer,
  lateFaults,
  oddStreams,
  scriptedText,
} from "../support/upstream-scripts.ts";

const messages = [{ role: "user", content: "Who pays when a provider lies?" }];
const maxTokens = 20;
const hostilePrice = 2_000_000n;
const hostilePrices = { inputPrice: hostilePrice, outputPrice: hostilePrice };
const billion = { inputTokens: 1_000_000_000, outputTokens: 1_000_000_000 };
const eventStream = { "content-type": "text/event-stream" };
const stranger = privateKeyToAccount(`0x${"5".repeat(64)}`);
const good = oddStreams.plain;

// ----------------------------------------------------------------------------------------------- before the first byte

/** A good answer of the asked kind under an acknowledgement that is not right. */
function acknowledgedBy(
  sign: (job: HostileJob) => { by: PrivateKeyAccount; jobId?: Hex; provider?: Hex; requestHash?: Hex },
): HostileScript {
  return async (job) => {
    const { by, ...wrong } = sign(job);
    const right = { jobId: job.jobId, provider: job.account.address, requestHash: bodyHash(job.request.body) };
    const signature = await by.signTypedData(acknowledgementTypedData(job.domain, { ...right, ...wrong }));
    return withHeader(job.streamed ? good : goodJson, wireHeaders.acknowledgement, signature);
  };
}

/** The same after it has signed for the job: it can be held to it. */
const signedFaults: Readonly<Record<string, HostileScript>> = {
  "headers and a reset, acknowledged": acknowledging(earlyFaults["headers and a reset"]),
  "headers and then nothing, acknowledged": acknowledging(earlyFaults["headers and then nothing"]),
  "an error object inside a 200, acknowledged": acknowledging(earlyFaults["an error object inside a 200"]),
  "an empty stream, acknowledged": acknowledging(earlyFaults["an empty stream"]),
  "an error object as JSON with status 200": acknowledging(
    jsonAnswer(200, { error: { message: "scripted", type: "server_error", param: null, code: "model_crashed" } }),
  ),
  "a line without end": acknowledging(endlessLine(6 * 1024 * 1024)),
};

/** What a provider may do before a byte of its answer has gone to the client. */
const beforeFirstByte: Readonly<Record<string, HostileScript>> = {
  ...Object.fromEntries(Object.entries(earlyFaults).map(([name, script]) => [name, () => script])),
  ...signedFaults,
  "JSON for a stream and a stream for JSON": ({ streamed, acknowledgement }) =>
    withHeader(streamed ? goodJson : good, wireHeaders.acknowledgement, acknowledgement),
  "no acknowledgement": ({ streamed }) => (streamed ? good : goodJson),
  "an acknowledgement that is no signature": ({ streamed }) =>
    withHeader(streamed ? good : goodJson, wireHeaders.acknowledgement, "0x1234"),
  "an acknowledgement of 12 kB": ({ streamed }) =>
    withHeader(streamed ? good : goodJson, wireHeaders.acknowledgement, `0x${"ab".repeat(6000)}`),
  "an acknowledgement by a stranger": acknowledgedBy(() => ({ by: stranger })),
  "an acknowledgement in another's name": acknowledgedBy(({ account }) => ({
    by: account,
    provider: stranger.address,
  })),
  "an acknowledgement of another job": acknowledgedBy(({ account }) => ({ by: account, jobId: bodyHash("x") })),
  "an acknowledgement of another request": acknowledgedBy(({ account }) => ({
    by: account,
    requestHash: bodyHash("x"),
  })),
  "no place although the chain gave it the job": () => errorAnswer(503, "provider_busy"),
  "a shutdown that never ends": () => errorAnswer(503, "provider_draining"),
  "a job that it says is not there": () => errorAnswer(404, "job_not_found"),
  "a signature that it says is wrong": () => errorAnswer(401, "invalid_authorization"),
  "a payment that it says is too small": () => errorAnswer(402, "insufficient_payment"),
};

// ------------------------------------------------------------------------------------------------ lies about an answer

const seenUsage = { inputTokens: 7, outputTokens: 3 };
const roleFrame = frame(chunkData({ role: "assistant", content: "" }));
const firstFrame = frame(chunkData({ content: "One" }));

function usageFields({ inputTokens, outputTokens }: Usage) {
  return {
    prompt_tokens: inputTokens,
    completion_tokens: outputTokens,
    total_tokens: inputTokens + outputTokens,
  };
}

/** Body of a whole stream that reports a usage. */
function streamBody(usage: Usage | undefined): string {
  return [
    roleFrame,
    ...["One", " two", " three"].map((content) => frame(chunkData({ content }))),
    frame(chunkData({}, "stop")),
    ...(usage === undefined ? [] : [frame(JSON.stringify({ id: "x", choices: [], usage: usageFields(usage) }))]),
    frame("[DONE]"),
  ].join("");
}

/** A JSON answer that reports a usage. */
function jsonBody(usage: Usage | undefined): string {
  return JSON.stringify({
    id: "x",
    object: "chat.completion",
    choices: [{ index: 0, message: { role: "assistant", content: scriptedText }, finish_reason: "stop" }],
    ...(usage === undefined ? {} : { usage: usageFields(usage) }),
  });
}

interface Lie {
  /** Usage inside the answer. */
  readonly reported: Usage | undefined;
  /** The statement, from a way to sign one and the hash of what was sent. */
  readonly statement: (job: HostileJob, sent: Hex) => Promise<string> | string | undefined;
  /** What the gateway signs at most; undefined = nothing. */
  readonly signed: Usage | undefined;
}

const inputBound = 1000;

/** A whole, acknowledged answer of either kind with a lie about it. */
function lying({ reported, statement }: Lie): HostileScript {
  return async (job) => {
    const body = job.streamed ? streamBody(reported) : jsonBody(reported);
    const text = await statement(job, bodyHash(body));
    const headers = { [wireHeaders.acknowledgement]: job.acknowledgement };
    if (job.streamed) {
      const comment = text === undefined ? [] : [chunk(`: ${usageCommentPrefix}${text}\n\n`)];
      return [head(200, { ...eventStream, ...headers }), chunk(body), ...comment, end];
    }
    const more = text === undefined ? {} : { [wireHeaders.usage]: text };
    return [head(200, { "content-type": "application/json", ...headers, ...more }), chunk(body), end];
  };
}

const lies: Readonly<Record<string, Lie>> = {
  "a statement of a billion tokens": {
    reported: seenUsage,
    statement: async (job, sent) => await job.state(billion, sent),
    signed: seenUsage,
  },
  "a billion tokens, in the answer and in the statement": {
    reported: billion,
    statement: async (job, sent) => await job.state(billion, sent),
    signed: { inputTokens: inputBound, outputTokens: maxTokens },
  },
  "a billion tokens, only in the statement": {
    reported: undefined,
    statement: async (job, sent) => await job.state(billion, sent),
    signed: { inputTokens: inputBound, outputTokens: maxTokens },
  },
  "the hash of another answer": {
    reported: seenUsage,
    statement: async (job) => await job.state(seenUsage, bodyHash("another answer")),
    signed: seenUsage,
  },
  "a statement without a signature": {
    reported: seenUsage,
    statement: (_job, sent) => JSON.stringify({ ...billion, responseHash: sent, signature: "0x" }),
    signed: seenUsage,
  },
  "a statement that somebody else signed": {
    reported: seenUsage,
    statement: async (job, sent) => {
      const { signature } = JSON.parse(await job.state(seenUsage, sent)) as { signature: Hex };
      return JSON.stringify({ ...billion, responseHash: sent, signature });
    },
    signed: seenUsage,
  },
  "a statement that is no JSON": { reported: seenUsage, statement: () => "{usage", signed: seenUsage },
  "no statement": { reported: seenUsage, statement: () => undefined, signed: seenUsage },
  "neither statement nor usage": { reported: undefined, statement: () => undefined, signed: undefined },
};

describe("a provider that is not what it seems, beside an honest dearer one", function () {
  this.timeout(180_000);
  let network: LocalNetwork;
  let gateway: RunningGateway;
  /** Calls no private addresses. */
  let guarded: RunningGateway;
  let depositBefore: bigint;
  const hostiles = new Map<string, HostileProvider>();
  const models = new Map<string, string>();
  const closers: (() => Promise<void>)[] = [];
  /** Settled by a late case's reader once the first content has come. */
  const firstContent = new Map(Object.keys(lateFaults).map((name) => [name, Promise.withResolvers<void>()]));

  const cases: Readonly<Record<string, HostileScript>> = {
    ...beforeFirstByte,
    ...Object.fromEntries(
      Object.entries(lateFaults).map(([name, script]) => [
        name,
        acknowledging(heldAfterFirst(script, firstContent.get(name)?.promise)),
      ]),
    ),
    ...Object.fromEntries(Object.entries(lies).map(([name, lie]) => [name, lying(lie)])),
    "a redirect to a trap": () => [
      head(307, { location: `${hostile("the trap").url}/v1/chat/completions`, "content-length": "0" }),
    ],
    "the trap": () => good,
    "part of an answer with a bill for a billion": async ({ acknowledgement }) =>
      await Promise.resolve([
        head(200, { ...eventStream, [wireHeaders.acknowledgement]: acknowledgement }),
        chunk(roleFrame + firstFrame),
        end,
      ]),
    "an acknowledgement on chain and no answer": acknowledging([head(200, eventStream), hang]),
  };

  before(async () => {
    for (const [index, name] of Object.keys(cases).entries()) models.set(name, `model/${index}`);
    network = await startLocalNetwork({
      providers: [
        {
          name: "honest",
          maxConcurrentJobs: 0,
          offerings: [...models.values()].map((model) => testOffering(10n, model)),
        },
      ],
      backend: { engine: "text", models: ["tiny"] },
      gateways: [
        { name: "gateway", port: 0, env: { T4T_ACK_TIMEOUT_SECONDS: "3", T4T_UPSTREAM_IDLE_SECONDS: "3" } },
        { name: "guarded", port: 0, env: { T4T_ALLOW_PRIVATE_ENDPOINTS: "false" } },
      ],
    });
    [gateway, guarded] = network.gateways as [RunningGateway, RunningGateway];
    depositBefore = (await moneyOf(clients())).free;
    await Promise.all(
      Object.entries(cases).map(async ([name, script]) => {
        const model = models.get(name) ?? "";
        hostiles.set(name, await startHostileProvider({ network, name, model, price: hostilePrice, script }));
      }),
    );
    await until(
      "the gateway knows every provider",
      async () => {
        const list = (await (await fetch(`${gateway.url}/v1/models`)).json()) as {
          data: { t4t: { providers: number } }[];
        };
        return list.data.length === models.size && list.data.every(({ t4t }) => t4t.providers === 2);
      },
      30_000,
      50,
    );
  });

  after(async () => {
    for (const closer of closers) await closer();
    await Promise.all([...hostiles.values()].map(async (provider) => await provider.close()));
    await network.stop();
  });

  function hostile(name: string): HostileProvider {
    const found = hostiles.get(name);
    if (found === undefined) throw new Error(`no hostile provider ${name}`);
    return found;
  }

  interface Answer {
    readonly status: number;
    readonly text: string;
    readonly jobId: Hex;
  }

  async function ask(name: string, stream: boolean, bound = maxTokens): Promise<Answer> {
    const onContent = (): void => firstContent.get(name)?.resolve();
    return await askAt(gateway.url, models.get(name) ?? "", stream, bound, onContent);
  }

  async function askAt(
    url: string,
    model: string,
    stream: boolean,
    bound = maxTokens,
    onContent: () => void = () => undefined,
  ): Promise<Answer> {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model, messages, max_tokens: bound, stream }),
    });
    let text = "";
    const decoder = new TextDecoder();
    for await (const part of response.body ?? []) {
      text += decoder.decode(part as Uint8Array, { stream: true });
      if (text.includes('"One"')) onContent();
    }
    return { status: response.status, text, jobId: (response.headers.get("x-t4t-job-id") ?? "0x") as Hex };
  }

  function expectWhole(answer: Answer, stream: boolean, what: string): string {
    expect(answer.status, `${what}: ${answer.text}`).to.equal(200);
    expect(answer.text, what).to.not.include('"error"');
    if (stream) expect(answer.text.trimEnd().endsWith("data: [DONE]"), `${what}: ${answer.text}`).to.equal(true);
    return stream ? streamedText(answer.text) : jsonText(answer.text);
  }

  // All requests of a group are under way together: most of their time is the silence of some.
  describe("before the first byte", () => {
    let answers: ReadonlyMap<string, readonly Answer[]>;

    before(async () => {
      answers = new Map(
        await Promise.all(
          [...Object.keys(beforeFirstByte), "a redirect to a trap"].map(
            async (name) => [name, await Promise.all([ask(name, true), ask(name, false)])] as const,
          ),
        ),
      );
    });

    for (const name of [...Object.keys(beforeFirstByte), "a redirect to a trap"]) {
      it(`leads to the honest one when it answers with ${name}`, () => {
        for (const [index, answer] of (answers.get(name) ?? []).entries()) {
          const content = expectWhole(answer, index === 0, name);
          expect(content, name).to.not.equal("").and.not.include(scriptedText.slice(0, 7));
        }
        expect(answers.get(name), name).to.have.length(2);
        expect(hostile(name).completions.length, "it was the cheapest, so it was asked first").to.be.at.least(2);
        expect(hostile(name).receipts, "nothing was delivered, so nothing is signed").to.deep.equal([]);
      });
    }

    it("is never followed to where it redirects", () => {
      expect(hostile("the trap").connections).to.equal(0);
    });
  });

  describe("after the first byte", () => {
    let answers: ReadonlyMap<string, Answer>;

    before(async () => {
      answers = new Map(
        await Promise.all(Object.keys(lateFaults).map(async (name) => [name, await ask(name, true)] as const)),
      );
    });

    for (const name of Object.keys(lateFaults)) {
      it(`is told to the client by one error frame and no [DONE] when it sends ${name}`, () => {
        const { status, text } = answers.get(name) ?? { status: 0, text: "" };
        expect(status, text).to.equal(200);
        const blocks = text.split("\n\n").filter((block) => block.startsWith("data: "));
        expect(streamedText(text), text).to.equal("One");
        expect(text, name).to.not.include("[DONE]");
        const errors = blocks.filter((block) => block.includes('"error"'));
        expect(errors, text).to.have.length(1);
        expect(blocks.at(-1), "the error is the last frame").to.equal(errors[0]);
        const { error } = JSON.parse(errors[0]?.slice(6) ?? "") as { error: Record<string, unknown> };
        expect(error).to.include.all.keys("message", "type", "param", "code");
        expect(error.code).to.be.oneOf(["upstream_error", "upstream_timeout"]);
        expect(JSON.stringify(error), "the provider's own words are not the client's").to.not.include("scripted");
        expect(hostile(name).completions, "nobody runs half an answer once more").to.have.length(1);
      });
    }

    it("is paid for a part no more than can have come, whatever it bills", async () => {
      const name = "part of an answer with a bill for a billion";
      const provider = hostile(name);
      provider.statementOf = async (jobId) => await provider.state(jobId, billion, bodyHash(roleFrame + firstFrame));
      const answer = await ask(name, true, 5000);
      expect(answer.text).to.include('"error"').and.not.include("[DONE]");
      const receipt = await until("a receipt for the part", () => provider.receipts[0], 20_000);
      expect(receipt.outputTokens).to.be.greaterThan(0).and.lessThan(200);
      expect(receipt.inputTokens).to.be.at.most(inputBound);
    });
  });

  describe("about its answer", () => {
    const asked = new Map<string, readonly Answer[]>();

    before(async () => {
      await Promise.all(
        Object.keys(lies).map(async (name) => {
          asked.set(name, await Promise.all([ask(name, true), ask(name, false)]));
        }),
      );
    });

    for (const [name, { signed }] of Object.entries(lies)) {
      it(`gets a receipt for what was seen and allowed, for all its lie: ${name}`, async () => {
        const provider = hostile(name);
        for (const [index, answer] of (asked.get(name) ?? []).entries()) {
          expect(expectWhole(answer, index === 0, name)).to.equal(scriptedText);
          if (signed === undefined) continue;
          const receipt = await until("the receipt comes", () =>
            provider.receipts.find(({ jobId }) => jobId === answer.jobId),
          );
          expect(receipt.outputTokens).to.be.at.most(signed.outputTokens);
          expect(receipt.inputTokens).to.be.at.most(signed.inputTokens);
          const body = index === 0 ? streamBody(lies[name]?.reported) : jsonBody(lies[name]?.reported);
          expect(receipt.responseHash, "the hash of the bytes that came").to.equal(bodyHash(body));
        }
        if (signed === undefined) expect(provider.receipts).to.deep.equal([]);
      });
    }

    it("is paid by the receipt, not by the lie, and without a receipt no more than the unsigned limit", async () => {
      const name = "a statement of a billion tokens";
      const provider = hostile(name);
      const [receipt] = provider.receipts;
      if (receipt === undefined) throw new Error("no receipt");
      const { jobId, responseHash, signature } = receipt;
      const refusal = await provider.completeJob(jobId, billion, responseHash, signature).then(
        () => "accepted",
        () => "refused",
      );
      expect(refusal, "a receipt for something else").to.equal("refused");
      await provider.completeJob(jobId, receipt, responseHash, signature);
      expect(await paymentOf(jobId)).to.equal(paymentFor(hostilePrices, receipt));

      const unsigned = hostile("neither statement nor usage");
      const [, answer] = asked.get("neither statement nor usage") ?? [];
      const unsignedJob = answer?.jobId ?? "0x";
      await unsigned.completeJob(unsignedJob, billion, bodyHash(""), "0x");
      const { escrow } = await contractEvents(network);
      const posted = escrow.find(({ eventName, args }) => eventName === "JobPosted" && args.jobId === unsignedJob);
      if (posted?.eventName !== "JobPosted") throw new Error("not posted");
      expect(await paymentOf(unsignedJob)).to.equal(posted.args.unsignedLimit);
      expect(posted.args.unsignedLimit).to.equal((posted.args.maxPayment ?? 0n) / 10n);
    });
  });

  describe("with an endpoint that is none of the internet, for a gateway that calls no other", () => {
    const endpoints = [
      "http://127.0.0.1:PORT",
      "http://127.1:PORT",
      "http://2130706433:PORT",
      "http://0x7f.0.0.1:PORT",
      "http://0177.0.0.1:PORT",
      "http://127\u30020\u30020\u30021:PORT",
      "http://localhost:PORT",
      "http://localhost.:PORT",
      "http://a.localhost:PORT",
      "http://0.0.0.0:PORT",
      "http://[::1]:PORT",
      "http://[::]:PORT",
      "http://[::ffff:127.0.0.1]:PORT",
      "http://[64:ff9b::7f00:1]:PORT",
      "http://user:password@127.0.0.1:PORT",
      "http://169.254.169.254/latest",
      "http://10.0.0.1:PORT",
      "file:///etc/passwd",
      "unix:/var/run/docker.sock",
      "javascript:alert(1)",
      "no url at all",
      `http://${"a".repeat(200)}:PORT`,
    ];
    const named = ["loopback.example.net", "mixed.example.net", "mapped.example.net"];
    const addresses: Readonly<Record<string, readonly string[]>> = {
      "loopback.example.net": ["127.0.0.1"],
      "mixed.example.net": ["127.0.0.1", "93.184.216.34"],
      "mapped.example.net": ["::ffff:127.0.0.1"],
    };

    before(async () => {
      await Promise.all(
        [...endpoints, ...named.map((name) => `http://${name}:PORT`)].map(async (endpoint, index) => {
          const model = `private/${index}`;
          models.set(endpoint, model);
          const script = (): Script => good;
          const options = { network, name: endpoint, model, price: hostilePrice, script, endpoint } as const;
          hostiles.set(endpoint, await startHostileProvider(options));
        }),
      );
    });

    it("is never called and never given a job", async () => {
      const last = models.get(endpoints.at(-1) ?? "") ?? "";
      await until("the guarded gateway has read the registry", async () => {
        const snapshot = await fetch(`${guarded.url}/v1/models/${last}`);
        return snapshot.status === 200;
      });
      for (const endpoint of endpoints) {
        const { status, text } = await askAt(guarded.url, models.get(endpoint) ?? "", false);
        expect(status, `${endpoint}: ${text}`).to.equal(404);
        expect((JSON.parse(text) as { error: { code: string } }).error.code).to.equal("model_not_found");
        expect(hostile(endpoint).connections, endpoint).to.equal(0);
      }
      expect(await postedBy(guarded)).to.equal(0);
    });

    it("is not called by a name that leads to loopback either, and not given a second job", async () => {
      await guarded.child.stop(10_000);
      const resolving = await startGateway(
        await readGatewaySettings({
          T4T_RPC_URL: network.rpcUrl,
          T4T_DEPLOYMENT_FILE: network.deploymentFile,
          T4T_DATA_DIR: join(network.dataDir, "resolving"),
          T4T_PRIVATE_KEY: guarded.participant.key,
          T4T_GATEWAY_PORT: "0",
          T4T_CHAIN_POLL_MS: "100",
          T4T_LOG_LEVEL: "silent",
        }),
        {
          resolve: async (name) =>
            await Promise.resolve(
              (addresses[name] ?? []).map((address) => ({ address, family: address.includes(":") ? 6 : 4 })),
            ),
        },
      );
      closers.push(async () => await resolving.close(0));
      await until("it is ready", () => resolving.notReady() === undefined);
      for (const name of named) {
        const endpoint = `http://${name}:PORT`;
        const model = models.get(endpoint) ?? "";
        const first = await askAt(resolving.url, model, true);
        expect(first.status, `${name}: ${first.text}`).to.equal(502);
        expect(first.text, "the client does not learn what the name leads to").to.not.match(
          /127\.0|loopback|closed_address/,
        );
        const second = await askAt(resolving.url, model, true);
        expect(second.status, `${name}: ${second.text}`).to.equal(404);
        expect(hostile(endpoint).connections, name).to.equal(0);
      }
      expect(await postedBy(guarded)).to.equal(named.length);
    });
  });

  describe("and the money", () => {
    it("comes back from all of it, every slot is freed, and only who signed for a job and broke its word loses stake", async () => {
      const name = "an acknowledgement on chain and no answer";
      const staller = hostile(name);
      expect(expectWhole(await ask(name, true), true, name)).to.not.include(scriptedText);
      const held = String(staller.completions[0]?.headers[wireHeaders.jobId]) as Hex;
      await staller.ackJob(held);
      const unsigned = beforeFirstByteNames().filter((other) => !Object.hasOwn(signedFaults, other));
      await advance(32);
      await until(
        "the gateway asks for its money back",
        async () => (await withdrawnOf(unsigned)) === (await openJobs(unsigned)),
        60_000,
        250,
      );
      await advance(62);
      await until("what nobody signed for is given back", async () => (await openJobs(unsigned)) === 0, 60_000, 250);
      // The rest have a receipt that they do not use, or signed for their job: their time is up with the deadline.
      await advance(1100);
      await until("no job is open", async () => (await openJobs([...hostiles.keys()])) === 0, 60_000, 250);

      const { escrow, registry } = await contractEvents(network);
      expect(await hasEvent("JobSlashed", held)).to.equal(true);
      const slashed = registry.filter(({ eventName }) => eventName === "StakeSlashed");
      for (const event of slashed) {
        if (event.eventName !== "StakeSlashed") continue;
        expect(event.args.provider, "an honest provider is not to blame").to.not.equal(honest().address);
        expect(maxPaymentsOf(escrow, event.args.provider)).to.include(event.args.amount);
      }
      const burnt = new Set(slashed.map(({ args }) => ("provider" in args ? args.provider : undefined)));
      for (const other of Object.keys(signedFaults)) expect(burnt.has(hostile(other).address), other).to.equal(true);
      for (const other of unsigned) expect(burnt.has(hostile(other).address), other).to.equal(false);
      const { free, locked } = await moneyOf(clients());
      expect(locked).to.equal(0n);
      const paid = escrow.reduce(
        (sum, event) => (event.eventName === "JobCompleted" ? sum + (event.args.payment ?? 0n) : sum),
        0n,
      );
      expect(free, "nothing is spent but what was paid").to.equal(depositBefore - paid);
      const inEscrow = await chainReader(network).readContract({
        address: network.deployment.token,
        abi: erc20Abi,
        functionName: "balanceOf",
        args: [network.deployment.escrow],
      });
      const earned = await moneyOf([honest().address, ...[...hostiles.values()].map(({ address }) => address)]);
      expect(free + earned.free, "the escrow holds exactly what it owes").to.equal(inEscrow);
    });

    it("leaves the honest one paid in full, with its stake and its slots", async () => {
      const { escrow } = await contractEvents(network);
      const { address } = honest();
      const posted = escrow.filter(({ eventName, args }) => eventName === "JobPosted" && args.provider === address);
      const paid = escrow.filter(
        ({ eventName, args }) => eventName === "JobCompleted" && args.provider === address && "signed" in args,
      );
      expect(posted.length).to.equal(2 * (Object.keys(beforeFirstByte).length + 1) + 1);
      expect(paid.length).to.equal(posted.length);
      for (const event of paid) if (event.eventName === "JobCompleted") expect(event.args.signed).to.equal(true);
      const onChain = await providerOnChain(network, address);
      expect(onChain.openJobs).to.equal(0);
      expect(onChain.stake).to.equal(1_000_000_000n);
    });
  });

  function clients(): readonly Hex[] {
    return [gateway, guarded].map(({ participant }) => participant.account.address);
  }

  async function moneyOf(addresses: readonly Hex[]): Promise<{ readonly free: bigint; readonly locked: bigint }> {
    const accounts = await Promise.all(addresses.map(async (address) => await escrowAccount(network, address)));
    return {
      free: accounts.reduce((sum, { free }) => sum + free, 0n),
      locked: accounts.reduce((sum, { locked }) => sum + locked, 0n),
    };
  }

  async function postedBy({ participant }: RunningGateway): Promise<number> {
    const { escrow } = await contractEvents(network);
    return escrow.filter(
      (event) => event.eventName === "JobPosted" && event.args.client === participant.account.address,
    ).length;
  }

  function honest() {
    const [provider] = network.providers;
    if (provider === undefined) throw new Error("no honest provider");
    return provider;
  }

  function beforeFirstByteNames(): readonly string[] {
    return [...Object.keys(beforeFirstByte), "a redirect to a trap"];
  }

  async function openJobs(names: readonly string[]): Promise<number> {
    const providers = await Promise.all(
      names.map(async (name) => await providerOnChain(network, hostile(name).address)),
    );
    return providers.reduce((sum, { openJobs: open }) => sum + open, 0);
  }

  /** Open jobs of providers whose money the gateway has asked for. */
  async function withdrawnOf(names: readonly string[]): Promise<number> {
    const { escrow } = await contractEvents(network);
    const providers = new Set(names.map((name) => hostile(name).address));
    const asked = escrow.filter(
      ({ eventName, args }) =>
        eventName === "JobCancelRequested" && "provider" in args && providers.has(args.provider as Hex),
    );
    return asked.length;
  }

  async function hasEvent(name: string, jobId: Hex): Promise<boolean> {
    const { escrow } = await contractEvents(network);
    return escrow.some(({ eventName, args }) => eventName === name && "jobId" in args && args.jobId === jobId);
  }

  async function paymentOf(jobId: Hex): Promise<bigint | undefined> {
    const { escrow } = await contractEvents(network);
    const completed = escrow.find(({ eventName, args }) => eventName === "JobCompleted" && args.jobId === jobId);
    return completed?.eventName === "JobCompleted" ? completed.args.payment : undefined;
  }

  async function advance(seconds: number): Promise<void> {
    await rpcCall(network.rpcUrl, "evm_increaseTime", [seconds]);
    await rpcCall(network.rpcUrl, "evm_mine", []);
  }
});

type EscrowEvents = Awaited<ReturnType<typeof contractEvents>>["escrow"];

/** `maxPayment` of each of a provider's jobs. */
function maxPaymentsOf(events: EscrowEvents, provider: Hex | undefined): readonly (bigint | undefined)[] {
  return events.flatMap((event) =>
    event.eventName === "JobPosted" && event.args.provider === provider ? [event.args.maxPayment] : [],
  );
}

/** The script with a hold after its first body chunk. */
function heldAfterFirst(script: Script, until: Promise<void> | undefined): Script {
  return script.flatMap((step, index) => (index === 1 && until !== undefined ? [step, hold(until)] : [step]));
}

/** Content of all chunks of an SSE answer. */
function streamedText(text: string): string {
  return text
    .split("\n\n")
    .filter((block) => block.startsWith("data: {"))
    .map((block) => JSON.parse(block.slice(6)) as { choices?: { delta?: { content?: string } }[] })
    .map(({ choices }) => choices?.[0]?.delta?.content ?? "")
    .join("");
}

function jsonText(text: string): string {
  return (JSON.parse(text) as { choices: { message: { content: string } }[] }).choices[0]?.message.content ?? "";
}
