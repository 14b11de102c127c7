import { setTimeout as delay } from "node:timers/promises";
import { expect } from "chai";
import { decodeEventLog, recoverTypedDataAddress } from "viem";
import { jobEscrowAbi } from "../../chain/abi/job-escrow.ts";
import { bodyHash } from "../../protocol/body-hash.ts";
import { acknowledgementTypedData, usageStatementTypedData } from "../../protocol/messages.ts";
import { paymentFor } from "../../protocol/money.ts";
import { decodeDelivered, wireHeaders } from "../../protocol/wire.ts";
import { chunk, close, end, hang, head, hold, reset } from "../support/scripted-upstream.ts";
import { until } from "../support/until.ts";
import { chatBody, errorCode, jobAtProvider, onChain, readStream, runJob, untilOnChain } from "./support/answers.ts";
import { eventsOf, type Market, type PostedJob, providerOnChain, startMarket, testPrices } from "./support/market.ts";
import { startNode, type TestNode, writeEndpoints } from "./support/node.ts";
import {
  delta,
  doneChunk,
  goodAnswer,
  goodStream,
  type ScriptedBackend,
  startScriptedBackend,
  stopChunk,
  streamHead,
  usageChunk,
} from "./support/scripted-backend.ts";

const stream = chatBody({ stream: true });
const words = ["Hello", " there", "!"];

describe("a job at a provider node", () => {
  let market: Market;
  let backend: ScriptedBackend;
  let node: TestNode;

  before(async () => {
    market = await startMarket();
    backend = await startScriptedBackend(goodStream(words));
    node = await startNode({
      market,
      backendUrl: backend.url,
      key: await market.providerKey(),
      environment: {
        T4T_MAX_CONCURRENT_JOBS: "20",
        T4T_BACKEND_IDLE_SECONDS: "1",
        T4T_BACKEND_FIRST_BYTE_SECONDS: "0.5",
        T4T_RECEIPT_GRACE_SECONDS: "1",
      },
    });
  });

  after(async () => {
    await node.close();
    await backend.close();
    await market.stop();
  });

  /** The escrow's last word on a job. */
  async function completion(job: PostedJob) {
    const { escrow } = await eventsOf(market);
    const events = escrow.filter((event) => event.eventName === "JobCompleted" && event.args.jobId === job.jobId);
    expect(events).to.have.length(1);
    const decoded = decodeEventLog({ abi: jobEscrowAbi, ...(events[0] as (typeof events)[number]) });
    if (decoded.eventName !== "JobCompleted") throw new Error(decoded.eventName);
    return decoded.args;
  }

  const runningOf = async (): Promise<number> => {
    const status = (await (await fetch(`${node.url}/v1/status`)).json()) as { readonly body: string };
    return (JSON.parse(status.body) as { readonly running: number }).running;
  };

  describe("that is streamed", () => {
    it("passes the backend's bytes unchanged, states the usage, and is settled to the token with the client's receipt", async () => {
      backend.use(goodStream(words, 7));
      const job = await runJob(market.client, node);
      expect(job.status).to.equal(200);
      expect(job.body).to.equal(words.map(delta).join("") + stopChunk + usageChunk(7, 3) + doneChunk);
      expect(job.statement).to.include({ inputTokens: 7, outputTokens: 3, responseHash: bodyHash(job.body) });
      await untilOnChain(market, job, onChain.completed);
      const paid = await completion(job);
      expect(paid.inputTokens).to.equal(7n);
      expect(paid.outputTokens).to.equal(3n);
      expect(paid.payment).to.equal(paymentFor(testPrices, { inputTokens: 7, outputTokens: 3 }));
      expect(paid.signed).to.equal(true);
      await until("the provider knows", async () => (await jobAtProvider(node, job)).status === "settled");
      expect((await jobAtProvider(node, job)).payment).to.equal(String(paid.payment));
    });

    it("is bounded by what its payment covers when the request sets no bound", async () => {
      backend.use(goodStream(words));
      const job = await market.client.post(node.address, { maxPayment: 600n });
      await readStream(await market.client.request(node.url, job, stream));
      const sent = JSON.parse(backend.completions().at(-1)?.body ?? "{}") as { max_tokens?: number };
      expect(sent.max_tokens).to.be.within(90, 100);
    });

    it("is acknowledged, with a signature that binds provider, job and request, before the backend has said anything", async () => {
      const release = Promise.withResolvers<void>();
      backend.use([hold(release.promise), ...goodStream(words)]);
      const job = await market.client.post(node.address);
      const response = await market.client.request(node.url, job, stream);
      const signature = response.headers.get(wireHeaders.acknowledgement) as `0x${string}`;
      const message = { jobId: job.jobId, provider: node.address, requestHash: bodyHash(stream) };
      const signer = await recoverTypedDataAddress({
        ...acknowledgementTypedData(market.client.domain, message),
        signature,
      });
      expect(signer).to.equal(node.address);
      release.resolve();
      const seen = await readStream(response);
      const {
        inputTokens,
        outputTokens,
        responseHash,
        signature: signed,
      } = seen.statement ?? expect.fail("no statement");
      const stated = usageStatementTypedData(market.client.domain, {
        jobId: job.jobId,
        provider: node.address,
        usage: { inputTokens, outputTokens },
        responseHash,
      });
      expect(await recoverTypedDataAddress({ ...stated, signature: signed })).to.equal(node.address);
    });

    it("comes token by token: each is with the gateway before the backend makes the next", async () => {
      const second = Promise.withResolvers<void>();
      backend.use([
        streamHead,
        chunk(delta("one")),
        hold(second.promise),
        chunk(delta("two") + stopChunk + doneChunk),
        end,
      ]);
      const job = await market.client.post(node.address);
      const response = await market.client.request(node.url, job, stream);
      const reader = response.body?.getReader() ?? expect.fail("no body");
      const first = await reader.read();
      expect(Buffer.from(first.value as Uint8Array).toString()).to.equal(delta("one"));
      second.resolve();
      await reader.cancel();
    });

    it("is asked for its usage at the backend, under the backend's model name, with nothing of the gateway's headers", async () => {
      await writeEndpoints(node.endpointsFile, backend.url, { offering: { backendModel: "real-name" } });
      await node.provider.reload();
      backend.use(goodStream(words));
      const before = backend.completions().length;
      await runJob(market.client, node);
      await writeEndpoints(node.endpointsFile, backend.url);
      await node.provider.reload();
      const sent = backend.completions()[before];
      expect(JSON.parse(sent?.body ?? "")).to.deep.include({
        model: "real-name",
        stream_options: { include_usage: true },
      });
      expect(Object.keys(sent?.headers ?? {}).filter((name) => name.startsWith("x-t4t"))).to.deep.equal([]);
    });

    it("ends for the gateway at [DONE], though the backend keeps its connection open", async () => {
      backend.use([streamHead, chunk(delta("a") + stopChunk + usageChunk(7, 1) + doneChunk), hang]);
      const job = await runJob(market.client, node);
      expect(job.statement).to.include({ outputTokens: 1 });
    });

    it("is counted and flagged by the node itself where the backend says no usage", async () => {
      backend.use([streamHead, chunk(delta("a") + delta("b") + stopChunk + doneChunk), end]);
      const job = await runJob(market.client, node);
      expect(job.statement?.outputTokens).to.equal(2);
      expect(job.statement?.inputTokens).to.equal(Math.ceil("Say something.".length / 4));
    });
  });

  describe("that is not streamed", () => {
    it("comes in one piece with its usage in a header", async () => {
      backend.use(goodAnswer("Hello", 7, 3));
      const job = await market.client.post(node.address);
      const response = await market.client.request(node.url, job, chatBody());
      const text = await response.text();
      expect(response.status, text).to.equal(200);
      const statement = decodeDelivered(response.headers.get(wireHeaders.usage) ?? "");
      expect(statement).to.include({ inputTokens: 7, outputTokens: 3, responseHash: bodyHash(text) });
      const usage = { inputTokens: 7, outputTokens: 3 };
      await market.client.sendReceipt(node.url, node.address, job.jobId, usage, bodyHash(text));
      await untilOnChain(market, job, onChain.completed);
    });

    it("is refused as 502 when the backend answers with a page instead of an answer, and given back", async () => {
      backend.use([head(200, { "content-type": "text/html" }), chunk("<html>"), end]);
      const job = await market.client.post(node.address);
      const response = await market.client.request(node.url, job, chatBody());
      expect(response.status).to.equal(502);
      expect(await errorCode(response)).to.equal("backend_unavailable");
      await untilOnChain(market, job, onChain.declined);
    });
  });

  describe("whose backend fails before its first byte", () => {
    const refusal = [
      head(400, { "content-type": "application/json" }),
      chunk(
        JSON.stringify({ error: { message: "max_tokens is too large", type: "x", param: "max_tokens", code: null } }),
      ),
      end,
    ];

    it("is given back with the backend's own words when the request is at fault", async () => {
      backend.use(refusal);
      const job = await market.client.post(node.address);
      const response = await market.client.request(node.url, job, chatBody());
      expect(response.status).to.equal(400);
      const body = (await response.json()) as { readonly error: object };
      expect(body.error).to.deep.equal({
        message: "max_tokens is too large",
        type: "invalid_request_error",
        param: "max_tokens",
        code: "backend_rejected",
      });
      await untilOnChain(market, job, onChain.declined);
    });

    it("says so in the stream's only block, without [DONE], as the head has gone", async () => {
      backend.use(refusal);
      const job = await market.client.post(node.address);
      const seen = await readStream(await market.client.request(node.url, job, stream));
      expect(seen.status).to.equal(200);
      expect(JSON.parse(seen.body.replace("data: ", ""))).to.have.nested.property("error.code", "backend_rejected");
      expect(seen.statement).to.equal(undefined);
      await untilOnChain(market, job, onChain.declined);
    });

    it("is the node's fault for any other status, a cut connection, a redirect or no stream at all", async () => {
      const scripts = [
        [head(500), end],
        [head(401), end],
        [head(404), end],
        [head(302, { location: "http://127.0.0.1:1/" }), end],
        [reset],
        [streamHead, end],
        [streamHead, close],
        [head(200, { "content-type": "application/json" }), chunk("{}"), end],
        [streamHead, chunk(`data: ${JSON.stringify({ error: { message: "out of memory" } })}\n\n`), end],
      ];
      for (const script of scripts) {
        backend.use(script);
        const job = await market.client.post(node.address);
        const seen = await readStream(await market.client.request(node.url, job, stream));
        expect(seen.body).to.include('"error"');
        expect(seen.body).to.not.include("[DONE]");
        await untilOnChain(market, job, onChain.declined);
      }
      expect(await runningOf()).to.equal(0);
    });

    it("is busy and not broken when the backend says so", async () => {
      backend.use([head(429), end]);
      const job = await market.client.post(node.address);
      const response = await market.client.request(node.url, job, chatBody());
      expect(response.status).to.equal(503);
      expect(await errorCode(response)).to.equal("provider_busy");
      await untilOnChain(market, job, onChain.declined);
    });

    it("is a timeout when the backend says nothing", async () => {
      for (const script of [[hang], [streamHead, hang]]) {
        backend.use(script);
        const job = await market.client.post(node.address);
        const seen = await readStream(await market.client.request(node.url, job, stream));
        expect(seen.body).to.include("backend_timeout");
        await untilOnChain(market, job, onChain.declined);
      }
    });
  });

  describe("whose stream is cut", () => {
    it("by the backend ends abnormally, and what was delivered is settled with the client's receipt", async () => {
      backend.use([streamHead, chunk(delta("one")), chunk(delta("two")), reset]);
      const job = await market.client.post(node.address);
      const seen = await readStream(await market.client.request(node.url, job, stream));
      expect(seen.isCut).to.equal(true);
      expect(seen.body).to.equal(delta("one") + delta("two"));
      const told = await jobAtProvider(node, job);
      expect(told).to.include({ status: "delivered", partial: true });
      const { inputTokens, outputTokens } = told.statement as { inputTokens: number; outputTokens: number };
      expect(outputTokens).to.equal(2);
      const usage = { inputTokens, outputTokens };
      const receipt = await market.client.sendReceipt(node.url, node.address, job.jobId, usage, bodyHash(seen.body));
      expect(receipt.status).to.equal(200);
      await untilOnChain(market, job, onChain.completed);
      expect((await completion(job)).outputTokens).to.equal(2n);
    });

    it("by a backend that falls silent ends too", async () => {
      backend.use([streamHead, chunk(delta("one")), hang]);
      const job = await market.client.post(node.address);
      const seen = await readStream(await market.client.request(node.url, job, stream));
      expect(seen.isCut).to.equal(true);
      expect(await jobAtProvider(node, job)).to.include({ partial: true });
    });

    it("in the middle of a block passes what came, and is not taken for whole", async () => {
      backend.use([streamHead, chunk(`${delta("one")}data: {"choices":[{"ind`), end]);
      const job = await market.client.post(node.address);
      const seen = await readStream(await market.client.request(node.url, job, stream));
      expect(seen.isCut).to.equal(true);
      expect(seen.statement).to.equal(undefined);
    });

    it("by the gateway stops the backend within 100 ms, frees the slot, and waits for a receipt for what was delivered", async () => {
      backend.use([streamHead, chunk(delta("one")), hang]);
      const job = await market.client.post(node.address);
      const leave = new AbortController();
      const before = backend.completions().length;
      const response = await market.client.request(node.url, job, stream, leave.signal);
      const reader = response.body?.getReader() ?? expect.fail("no body");
      await reader.read();
      const at = performance.now();
      leave.abort();
      await reader.read().catch(() => undefined);
      await (backend.completions()[before] ?? expect.fail("no request")).gone;
      expect(performance.now() - at).to.be.lessThan(100);
      await until("the slot is free", async () => (await runningOf()) === 0);
      await until("it is delivered", async () => (await jobAtProvider(node, job)).status === "delivered");
      const { inputTokens } = (await jobAtProvider(node, job)).statement as { inputTokens: number };
      const usage = { inputTokens, outputTokens: 1 };
      const receipt = await market.client.sendReceipt(node.url, node.address, job.jobId, usage, bodyHash(delta("one")));
      expect(receipt.status).to.equal(200);
      await untilOnChain(market, job, onChain.completed);
    });

    it("by a gateway that leaves before the first token is given back", async () => {
      backend.use([hang]);
      const job = await market.client.post(node.address);
      const leave = new AbortController();
      const before = backend.completions().length;
      await market.client.request(node.url, job, stream, leave.signal);
      const request = await until("the backend was asked", () => backend.completions()[before]);
      const at = performance.now();
      leave.abort();
      await request.gone;
      expect(performance.now() - at).to.be.lessThan(100);
      await untilOnChain(market, job, onChain.declined);
    });

    it("when a slow gateway does not read, the backend is slowed and not the answer buffered", async () => {
      const big = delta("x".repeat(64 * 1024));
      backend.use([streamHead, ...Array.from({ length: 400 }, () => chunk(big)), chunk(stopChunk + doneChunk), end]);
      const job = await market.client.post(node.address);
      const before = backend.completions().length;
      const response = await market.client.request(node.url, job, stream);
      const request = await until("the backend was asked", () => backend.completions()[before]);
      let isPlayed = false;
      void request.played.then(() => {
        isPlayed = true;
      });
      // Nobody reads: the script cannot come to its end until somebody does.
      await delay(300);
      expect(isPlayed).to.equal(false);
      const seen = await readStream(response);
      expect(seen.isCut).to.equal(false);
      expect(seen.statement?.outputTokens).to.equal(400);
    });
  });

  describe("without a receipt for all of it", () => {
    it("is claimed after the grace time, at most up to the client's unsigned limit", async () => {
      backend.use(goodStream(words));
      const job = await market.client.post(node.address, { unsignedLimit: 20n });
      await readStream(await market.client.request(node.url, job, stream));
      await untilOnChain(market, job, onChain.completed);
      expect(await completion(job)).to.include({ payment: 20n, signed: false, inputTokens: 7n, outputTokens: 3n });
    });

    it("is claimed at its true cost where that is less", async () => {
      backend.use(goodStream(words));
      const job = await market.client.post(node.address, { unsignedLimit: 1_000_000n });
      await readStream(await market.client.request(node.url, job, stream));
      await untilOnChain(market, job, onChain.completed);
      expect((await completion(job)).payment).to.equal(paymentFor(testPrices, { inputTokens: 7, outputTokens: 3 }));
    });

    it("is given back where nothing can be claimed, rather than run into a slash", async () => {
      backend.use(goodStream(words));
      const job = await market.client.post(node.address, { unsignedLimit: 0n });
      await readStream(await market.client.request(node.url, job, stream));
      await untilOnChain(market, job, onChain.declined);
      await until("the provider knows", async () => (await jobAtProvider(node, job)).status === "forfeited");
    });

    it("answers a receipt for less with its own statement, and settles the lower one only when nothing better comes", async () => {
      backend.use(goodStream(words));
      const job = await market.client.post(node.address, { unsignedLimit: 10n });
      const seen = await readStream(await market.client.request(node.url, job, stream));
      const low = { inputTokens: 7, outputTokens: 2 };
      const response = await market.client.sendReceipt(node.url, node.address, job.jobId, low, bodyHash(seen.body));
      expect(response.status).to.equal(409);
      const body = (await response.json()) as { readonly error: { readonly code: string }; readonly statement: object };
      expect(body.error.code).to.equal("receipt_below_usage");
      expect(body.statement).to.deep.equal(seen.statement);
      await untilOnChain(market, job, onChain.completed);
      expect(await completion(job)).to.include({ signed: true, outputTokens: 2n });
    });
  });

  describe("and its receipt", () => {
    it("is taken twice as one, and not after the end", async () => {
      backend.use(goodStream(words));
      const job = await runJob(market.client, node);
      const usage = { inputTokens: 7, outputTokens: 3 };
      const again = await market.client.sendReceipt(node.url, node.address, job.jobId, usage, bodyHash(job.body));
      expect(again.status).to.equal(200);
      const more = { inputTokens: 7, outputTokens: 4 };
      await untilOnChain(market, job, onChain.completed);
      const late = await market.client.sendReceipt(node.url, node.address, job.jobId, more, bodyHash(job.body));
      expect(late.status).to.equal(409);
    });

    it("is refused when somebody else signed it", async () => {
      backend.use(goodStream(words));
      const job = await market.client.post(node.address);
      const seen = await readStream(await market.client.request(node.url, job, stream));
      const stranger = await market.newClient();
      const usage = { inputTokens: 7, outputTokens: 3 };
      const response = await stranger.sendReceipt(node.url, node.address, job.jobId, usage, bodyHash(seen.body));
      expect(response.status).to.equal(401);
      expect(await errorCode(response)).to.equal("invalid_receipt");
    });

    it("is refused when it is no receipt, too large, or for a job that nobody knows", async () => {
      const post = async (id: string, body: string): Promise<Response> =>
        await fetch(`${node.url}/v1/jobs/${id}/receipt`, { method: "POST", body });
      const unknown = `0x${"ab".repeat(32)}`;
      expect((await post(unknown, "{")).status).to.equal(400);
      expect((await post(unknown, "x".repeat(100_000))).status).to.equal(413);
      const good = await market.client.receipt(
        node.address,
        unknown as `0x${string}`,
        { inputTokens: 1, outputTokens: 1 },
        `0x${"00".repeat(32)}`,
      );
      expect((await post(unknown, good)).status).to.equal(404);
      expect((await post("0x12", good)).status).to.equal(404);
    });
  });

  describe("after all of these", () => {
    it("the registry counts no open job, and neither does the node", async () => {
      await until("no job is open", async () => (await providerOnChain(market, node.address)).openJobs === 0);
      await until("the node has seen all ends", async () => {
        const page = await (await fetch(`${node.url}/metrics`)).text();
        return !/^t4t_provider_open_jobs\{/m.test(page) && page.includes("t4t_provider_running_jobs 0");
      });
    });
  });
});
