import { expect } from "chai";
import { request as httpRequest } from "node:http";
import { connect } from "node:net";
import { encodeAuthorization, wireHeaders } from "../../protocol/wire.ts";
import { countingRpcProxy } from "../support/rpc-proxy.ts";
import { hold } from "../support/scripted-upstream.ts";
import { until } from "../support/until.ts";
import { chatBody, errorCode, onChain, readStream, runJob, untilOnChain } from "./support/answers.ts";
import { type Market, startMarket } from "./support/market.ts";
import { startNode, type TestNode, writeEndpoints } from "./support/node.ts";
import { goodStream, type ScriptedBackend, startScriptedBackend } from "./support/scripted-backend.ts";

const stream = chatBody({ stream: true });

describe("admission at a provider node", () => {
  let market: Market;
  let backend: ScriptedBackend;
  let node: TestNode;

  before(async () => {
    market = await startMarket();
    backend = await startScriptedBackend(goodStream(["Hi"]));
    node = await startNode({
      market,
      backendUrl: backend.url,
      key: await market.providerKey(),
      environment: { T4T_MAX_CONCURRENT_JOBS: "20" },
    });
  });

  after(async () => {
    await node.close();
    await backend.close();
    await market.stop();
  });

  beforeEach(() => backend.use(goodStream(["Hi"])));

  async function send(headers: Record<string, string>, body: string): Promise<Response> {
    return await fetch(`${node.url}/v1/chat/completions`, { method: "POST", headers, body });
  }

  async function expectRefusal(response: Response, status: number, code: string): Promise<void> {
    const body = await response.text();
    expect(response.status, body).to.equal(status);
    const { error } = JSON.parse(body) as { readonly error: Record<string, unknown> };
    expect(error.code).to.equal(code);
    expect(error).to.have.all.keys("message", "type", "param", "code");
  }

  it("refuses a request without a job, and one whose authorisation is no authorisation", async () => {
    await expectRefusal(await send({}, stream), 400, "invalid_request");
    const headers = { [wireHeaders.jobId]: `0x${"11".repeat(32)}` };
    await expectRefusal(await send(headers, stream), 401, "invalid_authorization");
  });

  it("refuses an authorisation that has expired, or that would hold for days", async () => {
    const job = await market.client.post(node.address);
    await expectRefusal(await send(await market.client.headers(job, stream, -1), stream), 401, "invalid_authorization");
    await expectRefusal(
      await send(await market.client.headers(job, stream, 100_000), stream),
      401,
      "invalid_authorization",
    );
  });

  it("refuses a body that the client did not sign, so that nobody swaps the request of a paid job", async () => {
    const job = await market.client.post(node.address);
    const headers = await market.client.headers(job, stream);
    await expectRefusal(await send(headers, chatBody({ stream: true, extra: 1 })), 401, "invalid_authorization");
    expect((await send(headers, stream)).status, "the job is still good for the signed request").to.equal(200);
  });

  it("refuses a signature of anyone but the job's client", async () => {
    const job = await market.client.post(node.address);
    const stranger = await market.newClient();
    await expectRefusal(await send(await stranger.headers(job, stream), stream), 401, "invalid_authorization");
  });

  it("refuses an authorisation of another job of the same client", async () => {
    const [one, other] = [await market.client.post(node.address), await market.client.post(node.address)];
    const headers = { ...(await market.client.headers(one, stream)), [wireHeaders.jobId]: other.jobId };
    await expectRefusal(await send(headers, stream), 401, "invalid_authorization");
  });

  it("takes a contract wallet's signature by ERC-1271, and none that the wallet refuses", async () => {
    const job = await market.client.post(node.address);
    // From here on the client is a contract, of ever better will.
    const alwaysYes = `0x7f1626ba7e${"00".repeat(28)}60005260206000f3`;
    const alwaysNo = `0x7fffffffff${"00".repeat(28)}60005260206000f3`;
    const expiresAt = Math.floor(Date.now() / 1000) + 60;
    const headers = {
      [wireHeaders.jobId]: job.jobId,
      [wireHeaders.authorization]: encodeAuthorization({ expiresAt, signature: "0x0102" }),
    };
    await expectRefusal(await send(headers, stream), 401, "invalid_authorization");
    await market.chain.rpc("hardhat_setCode", market.client.account.address, alwaysNo);
    await expectRefusal(await send(headers, stream), 401, "invalid_authorization");
    await market.chain.rpc("hardhat_setCode", market.client.account.address, "0x60006000fd");
    await expectRefusal(await send(headers, stream), 401, "invalid_authorization");
    await market.chain.rpc("hardhat_setCode", market.client.account.address, alwaysYes);
    const response = await send(headers, stream);
    expect(response.status).to.equal(200);
    await readStream(response);
    await market.chain.rpc("hardhat_setCode", market.client.account.address, "0x");
  });

  it("refuses a job that the chain does not know: at once when its block is past, else after a while and not for ever", async () => {
    const jobId = `0x${"77".repeat(32)}` as const;
    const ask = async (blockNumber: bigint): Promise<number> => {
      const headers = await market.client.headers({ jobId, blockNumber }, stream);
      const at = performance.now();
      await expectRefusal(await send(headers, stream), 404, "job_not_found");
      return performance.now() - at;
    };
    expect(await ask(1n)).to.be.lessThan(1_000);
    expect(await ask(999_999n)).to.be.within(1_500, 3_000);
  });

  it("waits for a job whose block its own node of the chain has not seen yet", async () => {
    const proxy = await countingRpcProxy(market.chain.rpcUrl);
    const own = await startNode({
      market,
      backendUrl: backend.url,
      key: await market.providerKey(),
      environment: { T4T_RPC_URL: proxy.url },
    });
    try {
      const jobId = await market.client.nextJobId();
      await market.chain.rpc("evm_setAutomine", false);
      const posting = market.client.post(own.address);
      proxy.reset();
      const answering = market.client.request(own.url, { jobId, blockNumber: 999_999n }, stream);
      await until("it was looked for in vain", () => proxy.count("eth_call") >= 2);
      await market.chain.rpc("evm_setAutomine", true);
      await market.chain.rpc("evm_mine");
      expect((await posting).jobId).to.equal(jobId);
      expect((await answering).status).to.equal(200);
    } finally {
      await market.chain.rpc("evm_setAutomine", true);
      await own.close();
      await proxy.stop();
    }
  });

  it("refuses a job of another provider", async () => {
    const other = await startNode({ market, backendUrl: backend.url, key: await market.providerKey() });
    try {
      const job = await market.client.post(other.address);
      await expectRefusal(await send(await market.client.headers(job, stream), stream), 404, "job_not_found");
    } finally {
      await other.close();
    }
  });

  it("refuses a model that it does not offer, and a job that was posted for another model", async () => {
    const job = await market.client.post(node.address);
    const body = chatBody({ model: "other/model" });
    await expectRefusal(await send(await market.client.headers(job, body), body), 404, "model_not_offered");
  });

  it("refuses a job that does not pay for its max_tokens, and one whose deadline is near", async () => {
    const poor = await market.client.post(node.address, { maxPayment: 100n });
    const body = chatBody({ stream: true, max_tokens: 50 });
    await expectRefusal(await send(await market.client.headers(poor, body), body), 402, "insufficient_payment");
    await untilOnChain(market, poor, onChain.declined);
    const late = await startNode({
      market,
      backendUrl: backend.url,
      key: await market.providerKey(),
      environment: { T4T_MIN_JOB_SECONDS: "3000" },
    });
    try {
      const job = await market.client.post(late.address);
      await expectRefusal(await market.client.request(late.url, job, stream), 409, "deadline_too_close");
      await untilOnChain(market, job, onChain.declined);
    } finally {
      await late.close();
    }
  });

  it("honours a job at the price of its record though prices were raised meanwhile", async () => {
    const job = await market.client.post(node.address);
    await writeEndpoints(node.endpointsFile, backend.url, { offering: { inputPrice: "9000000" } });
    await node.provider.reload();
    expect((await market.client.request(node.url, job, stream)).status).to.equal(200);
    await writeEndpoints(node.endpointsFile, backend.url);
    await node.provider.reload();
  });

  it("starts a job once, of many requests that come at the same time", async () => {
    const job = await market.client.post(node.address);
    const before = backend.completions().length;
    const responses = await Promise.all(
      Array.from({ length: 8 }, async () => await market.client.request(node.url, job, stream)),
    );
    const statuses = responses.map((response) => response.status).toSorted((a, b) => a - b);
    expect(statuses).to.deep.equal([200, ...Array.from({ length: 7 }, () => 409)]);
    await Promise.all(responses.map(async (response) => await response.text()));
    expect(backend.completions().length - before).to.equal(1);
    await expectRefusal(await market.client.request(node.url, job, stream), 409, "job_already_started");
  });

  it("refuses what is ended on chain", async () => {
    const job = await runJob(market.client, node);
    await untilOnChain(market, job, onChain.completed);
    await expectRefusal(await market.client.request(node.url, job, stream), 409, "job_already_started");
  });

  it("is busy while its slot is taken, gives the job back at once, and takes the next as soon as the stream has ended", async () => {
    await writeEndpoints(node.endpointsFile, backend.url, { backend: { maxConcurrent: 1 } });
    await node.provider.reload();
    const release = Promise.withResolvers<void>();
    backend.use([hold(release.promise), ...goodStream(["Hi"])]);
    const [one, two] = [await market.client.post(node.address), await market.client.post(node.address)];
    const first = await market.client.request(node.url, one, stream);
    const refused = await market.client.request(node.url, two, stream);
    expect(refused.headers.get("retry-after")).to.equal("1");
    await expectRefusal(refused, 503, "provider_busy");
    await untilOnChain(market, two, onChain.declined);
    release.resolve();
    await readStream(first);
    const second = await market.client.request(node.url, await market.client.post(node.address), stream);
    expect(second.status).to.equal(200);
    await readStream(second);
    await writeEndpoints(node.endpointsFile, backend.url);
    await node.provider.reload();
  });

  it("gives a paid job back at once when its backend is down", async () => {
    const down = await startScriptedBackend(goodStream(["Hi"]));
    const own = await startNode({ market, backendUrl: down.url, key: await market.providerKey() });
    try {
      await down.close();
      const first = await market.client.post(own.address);
      const seen = await readStream(await market.client.request(own.url, first, stream));
      expect(seen.body, "the first request finds out").to.include("backend_unavailable");
      const second = await market.client.post(own.address);
      await expectRefusal(await market.client.request(own.url, second, stream), 502, "backend_unavailable");
      await untilOnChain(market, first, onChain.declined);
      await untilOnChain(market, second, onChain.declined);
      expect((await fetch(`${own.url}/readyz`)).status).to.equal(503);
      expect((await fetch(`${own.url}/healthz`)).status).to.equal(200);
    } finally {
      await own.close();
    }
  });

  describe("of bad HTTP", () => {
    it("refuses a body over 20 MB with 413, announced or not, and closes", async () => {
      const job = await market.client.post(node.address);
      const headers = await market.client.headers(job, stream);
      const announced = await new Promise<{ status: number; body: string; connection: string | undefined }>(
        (resolve, reject) => {
          const request = httpRequest(`${node.url}/v1/chat/completions`, {
            method: "POST",
            headers: { ...headers, "content-length": String(21 * 1024 * 1024) },
          });
          request.on("error", reject);
          request.on("response", (response) => {
            let body = "";
            response.on("data", (piece: Buffer) => {
              body += piece.toString();
            });
            response.on("end", () => {
              resolve({ status: response.statusCode ?? 0, body, connection: response.headers.connection });
              request.destroy();
            });
          });
          request.flushHeaders();
        },
      );
      expect(announced.status).to.equal(413);
      expect(announced.connection).to.equal("close");
      expect(announced.body).to.include("request_too_large");
      const streamed = await new Promise<number>((resolve, reject) => {
        const request = httpRequest(`${node.url}/v1/chat/completions`, { method: "POST", headers });
        request.on("response", (response) => {
          resolve(response.statusCode ?? 0);
          response.resume();
          request.destroy();
        });
        request.on("error", reject);
        const piece = Buffer.alloc(1024 * 1024, 32);
        let sent = 0;
        const more = (): void => {
          while (sent < 30 && !request.destroyed) {
            sent += 1;
            if (!request.write(piece)) {
              request.once("drain", more);
              return;
            }
          }
        };
        more();
      });
      expect(streamed).to.equal(413);
    });

    it("takes a body of almost 20 MB", async () => {
      const body = chatBody({ stream: true, padding: "x".repeat(19 * 1024 * 1024) });
      const job = await market.client.post(node.address);
      const response = await market.client.request(node.url, job, body);
      expect(response.status, response.status === 200 ? "" : await response.text()).to.equal(200);
      await readStream(response);
    });

    it("never answers 500 to what is malformed", async () => {
      for (const body of [
        "",
        "{",
        "[]",
        "null",
        '"x"',
        "{}",
        '{"model":5}',
        '{"model":"acme/tiny","stream":1}',
        "\u0000\ufffd",
      ]) {
        const job = { jobId: `0x${"88".repeat(32)}`, blockNumber: 1n } as const;
        const response = await send(await market.client.headers(job, body), body);
        expect(response.status, body).to.equal(400);
        expect(await errorCode(response)).to.equal("invalid_request");
      }
      for (const [method, path] of [
        ["GET", "/"],
        ["GET", "/v1/chat/completions"],
        ["POST", "/v1/status"],
        ["DELETE", "/v1/jobs/x"],
        ["GET", "/v1/jobs/%00"],
      ] as const) {
        const response = await fetch(`${node.url}${path}`, { method });
        expect(response.status, `${method} ${path}`).to.equal(404);
        expect(await errorCode(response)).to.equal("unknown_url");
      }
    });

    it("answers what is no HTTP, and headers beyond all bounds, in the shape of its other errors", async () => {
      const say = async (text: string): Promise<string> =>
        await new Promise((resolve, reject) => {
          const { hostname, port } = new URL(node.url);
          const socket = connect(Number(port), hostname, () => socket.write(text));
          let answer = "";
          socket.on("data", (piece) => {
            answer += piece.toString();
          });
          socket.on("close", () => resolve(answer));
          socket.on("error", reject);
        });
      expect(await say("HELLO\r\n\r\n")).to.match(/^HTTP\/1.1 400 .*"code":"invalid_request"/s);
      expect(await say(`GET / HTTP/1.1\r\nhost: x\r\nx: ${"y".repeat(40_000)}\r\n\r\n`)).to.match(/^HTTP\/1.1 431 /);
    });
  });

  it("counts refusals by their code, and holds no slot after all of these", async () => {
    const page = await (await fetch(`${node.url}/metrics`)).text();
    expect(page).to.include("t4t_provider_running_jobs 0");
    expect(page).to.match(/t4t_provider_refusals_total\{code="invalid_authorization"\} \d+/);
  });
});
