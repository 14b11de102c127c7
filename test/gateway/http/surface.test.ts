import { request as httpRequest } from "node:http";
import { connect } from "node:net";
import { expect } from "chai";
import { goodJson, oddStreams } from "../../support/upstream-scripts.ts";
import { fakeTerms } from "../support/fake-chain.ts";
import { acknowledged, scriptedModel } from "../support/scripted-provider.ts";
import { postJson, startTestGateway, type TestGateway } from "../support/test-gateway.ts";

const messages = [{ role: "user", content: "Hello" }];
const good = acknowledged(goodJson);

async function errorOf(response: Response): Promise<Record<string, unknown>> {
  const { error } = (await response.json()) as { error: Record<string, unknown> };
  expect(error, "all four keys, always").to.have.all.keys("message", "type", "param", "code");
  return error;
}

/** Bytes to the gateway and whatever comes back until the connection ends. */
async function rawExchange(url: string, bytes: string): Promise<string> {
  return await new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    let text = "";
    socket.on("data", (chunk) => {
      text += chunk.toString();
    });
    socket.on("close", () => resolve(text));
    socket.on("error", reject);
    socket.write(bytes);
  });
}

describe("the gateway's HTTP surface", () => {
  let place: TestGateway;

  describe("open on loopback", () => {
    before(async () => {
      place = await startTestGateway({
        providers: [{ script: good, models: [scriptedModel, "org/name:7b", "modèle/été"] }],
        settings: { maxBodyBytes: 100_000 },
      });
    });

    after(async () => {
      await place.close();
    });

    const chat = async (body: unknown, headers: Record<string, string> = {}) =>
      await postJson(`${place.url}/v1/chat/completions`, body, { headers });

    for (const [what, body, code, param] of [
      ["malformed JSON", '{"model": ', "invalid_json", null],
      ["an empty body", "", "invalid_json", null],
      ["a JSON array", "[]", "invalid_json", null],
      ["a JSON string", '"hello"', "invalid_json", null],
      ["no messages", { model: "m" }, "missing_required_parameter", "messages"],
      ["messages of another type", { model: "m", messages: "hi" }, "invalid_value", "messages"],
      ["empty messages", { model: "m", messages: [] }, "invalid_value", "messages"],
      ["a message that is no object", { model: "m", messages: ["hi"] }, "invalid_value", "messages[0]"],
      ["a message without a role", { model: "m", messages: [{ content: "hi" }] }, "invalid_value", "messages[0].role"],
      [
        "content of another type",
        { model: "m", messages: [{ role: "user", content: 5 }] },
        "invalid_value",
        "messages[0].content",
      ],
      [
        "a user message without content",
        { model: "m", messages: [{ role: "user" }] },
        "missing_required_parameter",
        "messages[0].content",
      ],
      [
        "a user message that says null",
        { model: "m", messages: [{ role: "user", content: null }] },
        "missing_required_parameter",
        "messages[0].content",
      ],
      [
        "an assistant message that holds nothing",
        { model: "m", messages: [...messages, { role: "assistant", name: "a" }] },
        "missing_required_parameter",
        "messages[1].content",
      ],
      [
        "content without parts",
        { model: "m", messages: [{ role: "user", content: [] }] },
        "invalid_value",
        "messages[0].content",
      ],
      [
        "a text part without text",
        { model: "m", messages: [{ role: "user", content: [{ type: "text" }] }] },
        "invalid_value",
        "messages[0].content[0].text",
      ],
      [
        "a picture without an address",
        { model: "m", messages: [{ role: "user", content: [{ type: "image_url", image_url: {} }] }] },
        "invalid_value",
        "messages[0].content[0].image_url.url",
      ],
      ["negative temperature", { model: "m", messages, temperature: -1 }, "invalid_value", "temperature"],
      ["top_p above 1", { model: "m", messages, top_p: 1.5 }, "invalid_value", "top_p"],
      ["a penalty below -2", { model: "m", messages, presence_penalty: -3 }, "invalid_value", "presence_penalty"],
      [
        "stream options without a stream",
        { model: "m", messages, stream_options: { include_usage: true } },
        "invalid_value",
        "stream_options",
      ],
      ["a model of another type", { model: 5, messages }, "invalid_value", "model"],
      ["negative max_tokens", { model: "m", messages, max_tokens: -1 }, "invalid_value", "max_tokens"],
      ["zero max_tokens", { model: "m", messages, max_tokens: 0 }, "invalid_value", "max_tokens"],
      ["fractional max_tokens", { model: "m", messages, max_tokens: 1.5 }, "invalid_value", "max_tokens"],
      ["max_tokens as text", { model: "m", messages, max_tokens: "10" }, "invalid_value", "max_tokens"],
      [
        "negative max_completion_tokens",
        { model: "m", messages, max_completion_tokens: -5 },
        "invalid_value",
        "max_completion_tokens",
      ],
      ["n of 0", { model: "m", messages, n: 0 }, "invalid_value", "n"],
      ["n beyond reason", { model: "m", messages, n: 1e6 }, "invalid_value", "n"],
      ["stream as text", { model: "m", messages, stream: "true" }, "invalid_value", "stream"],
      ["temperature as text", { model: "m", messages, temperature: "hot" }, "invalid_value", "temperature"],
      ["tools as an object", { model: "m", messages, tools: {} }, "invalid_value", "tools"],
      [
        "include_usage as text",
        { model: "m", messages, stream_options: { include_usage: "yes" } },
        "invalid_value",
        "stream_options.include_usage",
      ],
      [
        "a field given twice",
        '{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":1,"max_tokens":100000}',
        "invalid_value",
        "max_tokens",
      ],
    ] as const) {
      it(`refuses ${what} with 400, naming the field`, async () => {
        const response = await chat(body);
        expect(response.status).to.equal(400);
        expect(await errorOf(response)).to.include({ type: "invalid_request_error", code, param });
      });
    }

    it("refuses bytes that are no UTF-8", async () => {
      const response = await fetch(`${place.url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]),
      });
      expect(response.status).to.equal(400);
      expect((await errorOf(response)).code).to.equal("invalid_json");
    });

    it("takes null for absent in every field that it checks", async () => {
      const response = await chat({
        model: scriptedModel,
        messages,
        max_tokens: null,
        n: null,
        stream: null,
        temperature: null,
        tools: null,
        stream_options: null,
        user: null,
      });
      expect(response.status).to.equal(200);
    });

    it("takes messages with parts, tool calls and no content", async () => {
      const response = await chat({
        model: scriptedModel,
        messages: [
          {
            role: "user",
            content: [
              { type: "text", text: "look" },
              { type: "image_url", image_url: { url: "https://x.example/a.png" } },
            ],
          },
          {
            role: "assistant",
            content: null,
            tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: "{}" } }],
          },
          { role: "tool", tool_call_id: "c", content: "42" },
        ],
      });
      expect(response.status).to.equal(200);
    });

    for (const [header, value, cure] of [
      ["x-t4t-progress", "loud", "event"],
      ["x-t4t-debug", "1", "true"],
      ["x-t4t-routing", "fastest", "one of"],
      ["x-t4t-affinity-key", "k".repeat(513), "512"],
    ] as const) {
      it(`refuses '${value.slice(0, 8)}' as ${header}, and says what it may be`, async () => {
        const response = await chat({ model: scriptedModel, messages, stream: true }, { [header]: value });
        expect(response.status).to.equal(400);
        const { param, message } = await errorOf(response);
        expect(param).to.equal(header);
        expect(message).to.include(cure);
      });
    }

    for (const type of [undefined, "text/plain", "application/x-www-form-urlencoded"]) {
      it(`refuses a body announced as ${type ?? "nothing"}: a foreign web page could send it unasked`, async () => {
        const response = await fetch(`${place.url}/v1/chat/completions`, {
          method: "POST",
          headers: type === undefined ? {} : { "content-type": type },
          body: new Blob([JSON.stringify({ model: scriptedModel, messages })]),
        });
        expect(response.status).to.equal(400);
        expect((await errorOf(response)).code).to.equal("unsupported_content_type");
      });
    }

    it("refuses web pages of other origins and names that were rebound to loopback", async () => {
      expect((await chat({ model: scriptedModel, messages }, { origin: "https://evil.example" })).status).to.equal(401);
      expect((await chat({ model: scriptedModel, messages }, { origin: "null" })).status).to.equal(401);
      expect((await chat({ model: scriptedModel, messages }, { origin: "http://localhost:3000" })).status).to.equal(
        200,
      );
      const port = new URL(place.url).port;
      const status = await new Promise<number | undefined>((resolve, reject) => {
        const request = httpRequest(
          { host: "127.0.0.1", port, path: "/v1/models", headers: { host: "rebound.example" } },
          (response) => {
            response.resume();
            resolve(response.statusCode);
          },
        );
        request.on("error", reject);
        request.end();
      });
      expect(status).to.equal(401);
    });

    it("says unknown_url for what it does not know, and 405 with Allow for the wrong method", async () => {
      for (const path of ["/", "/v1", "/v1/embeddings", "/v1/chat/completions/x", "/admin", "/v1/jobs/x/y"]) {
        const response = await fetch(`${place.url}${path}`);
        expect(response.status, path).to.equal(404);
        expect((await errorOf(response)).code).to.equal("unknown_url");
      }
      const wrong = await fetch(`${place.url}/v1/chat/completions`);
      expect(wrong.status).to.equal(405);
      expect(wrong.headers.get("allow")).to.equal("POST");
      expect((await errorOf(wrong)).code).to.equal("method_not_allowed");
    });

    it("finds model ids with slashes and beyond ASCII, raw and percent-encoded", async () => {
      for (const id of [scriptedModel, "org/name:7b", "modèle/été"]) {
        for (const path of [encodeURI(id), encodeURIComponent(id)]) {
          const response = await fetch(`${place.url}/v1/models/${path}`);
          expect(response.status, path).to.equal(200);
          expect(((await response.json()) as { id: string }).id).to.equal(id);
        }
      }
      expect((await fetch(`${place.url}/v1/models/no%2Fsuch`)).status).to.equal(404);
      expect((await fetch(`${place.url}/v1/models/%E0%A4%A`)).status).to.equal(404);
    });

    it("lists models as OpenAI does", async () => {
      const list = (await (await fetch(`${place.url}/v1/models`)).json()) as {
        object: string;
        data: Record<string, unknown>[];
      };
      expect(list.object).to.equal("list");
      expect(list.data.map(({ id }) => id)).to.deep.equal([scriptedModel, "org/name:7b", "modèle/été"].toSorted());
      for (const model of list.data) expect(model).to.include({ object: "model", owned_by: "t4t" });
    });

    it("says in what unit its prices are, so that nobody takes a token of 6 decimals for wei", async () => {
      const model = (await (await fetch(`${place.url}/v1/models/${scriptedModel}`)).json()) as { t4t: object };
      expect(model.t4t).to.deep.include({
        inputPrice: "1000000",
        priceUnit: { perTokens: 1_000_000, token: { ...fakeTerms.token } },
      });
    });

    it("puts a request id on every answer: the client's own when it is short and printable", async () => {
      const paths = ["/healthz", "/v1/models", "/nowhere"];
      for (const path of paths) {
        const minted = await fetch(`${place.url}${path}`);
        expect(minted.headers.get("x-request-id")).to.match(/^req_[0-9a-f]{24}$/);
        const echoed = await fetch(`${place.url}${path}`, { headers: { "x-request-id": "my-own.id:7" } });
        expect(echoed.headers.get("x-request-id")).to.equal("my-own.id:7");
        const long = await fetch(`${place.url}${path}`, { headers: { "x-request-id": "x".repeat(500) } });
        expect(long.headers.get("x-request-id")).to.match(/^req_/);
      }
    });

    it("refuses a body beyond the bound with 413, announced or not, so that the client gets to read it", async () => {
      const big = JSON.stringify({
        model: scriptedModel,
        messages: [{ role: "user", content: "x".repeat(5_000_000) }],
      });
      const announced = await chat(big);
      expect(announced.status).to.equal(413);
      expect((await errorOf(announced)).code).to.equal("request_too_large");
      expect(announced.headers.get("connection")).to.equal("close");
      const stream = new ReadableStream<Uint8Array>({
        pull(controller) {
          controller.enqueue(new Uint8Array(64 * 1024).fill(0x20));
        },
      });
      const endless = await fetch(`${place.url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: stream,
        duplex: "half",
      });
      expect(endless.status).to.equal(413);
    });

    it("tells a client that asks before it sends not to send too much", async () => {
      const answer = await rawExchange(
        place.url,
        "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nexpect: 100-continue\r\ncontent-type: application/json\r\ncontent-length: 900000\r\n\r\n",
      );
      expect(answer).to.match(/^HTTP\/1\.1 413 /);
      expect(answer).to.not.include("100 Continue");
    });

    it("answers what is not HTTP in its own shape", async () => {
      const garbage = await rawExchange(place.url, "\x16\x03\x01 hello\r\n\r\n");
      expect(garbage).to.match(/^HTTP\/1\.1 400 /);
      expect(garbage).to.include('"type":"invalid_request_error"');
      const heads = await rawExchange(place.url, `GET / HTTP/1.1\r\nhost: x\r\nx-long: ${"a".repeat(100_000)}\r\n\r\n`);
      expect(heads).to.match(/^HTTP\/1\.1 431 /);
    });

    it("keeps idle connections longer than any load balancer", async () => {
      const response = await fetch(`${place.url}/healthz`);
      expect(Number(/timeout=(\d+)/.exec(response.headers.get("keep-alive") ?? "")?.[1])).to.be.greaterThan(600);
    });
  });

  describe("with API keys", () => {
    before(async () => {
      place = await startTestGateway({
        providers: [good],
        settings: { apiKeys: ["first-secret-key", "second-secret-key"] },
      });
    });

    after(async () => {
      await place.close();
    });

    it("asks for a key on every route but health", async () => {
      for (const path of ["/v1/models", "/v1/jobs", "/metrics"]) {
        const response = await fetch(`${place.url}${path}`);
        expect(response.status, path).to.equal(401);
        expect(await errorOf(response)).to.include({ type: "invalid_request_error", code: "invalid_api_key" });
      }
      expect((await fetch(`${place.url}/healthz`)).status).to.equal(200);
      expect((await fetch(`${place.url}/readyz`)).status).to.equal(200);
    });

    it("takes each of its keys and no other, and never repeats one", async () => {
      const ask = async (authorization: string) =>
        await fetch(`${place.url}/v1/models`, { headers: { authorization } });
      expect((await ask("Bearer first-secret-key")).status).to.equal(200);
      expect((await ask("bearer second-secret-key")).status).to.equal(200);
      for (const wrong of [
        "Bearer first-secret-kez",
        "Bearer ",
        "first-secret-key",
        "Basic first-secret-key",
        "Bearer first-secret-key x",
      ]) {
        const response = await ask(wrong);
        expect(response.status, wrong).to.equal(401);
        expect(await response.text()).to.not.include("secret");
      }
    });

    it("shows a key's jobs to that key only", async () => {
      const asked = await postJson(
        `${place.url}/v1/jobs`,
        { request: { model: scriptedModel, messages } },
        { headers: { authorization: "Bearer first-secret-key" } },
      );
      const { id } = (await asked.json()) as { id: string };
      const as = async (key: string, path: string) =>
        await fetch(`${place.url}${path}`, { headers: { authorization: `Bearer ${key}` } });
      expect((await as("first-secret-key", `/v1/jobs/${id}`)).status).to.equal(200);
      expect((await as("second-secret-key", `/v1/jobs/${id}`)).status).to.equal(404);
      expect((await as("second-secret-key", `/v1/jobs/${id}/events`)).status).to.equal(404);
      const list = (await (await as("second-secret-key", "/v1/jobs")).json()) as { data: unknown[] };
      expect(list.data).to.have.length(0);
    });
  });

  it("takes a body of 20 MB whole by default", async () => {
    place = await startTestGateway({ providers: [{ script: good, contextLength: 20_000_000 }] });
    const content = "x".repeat(19_000_000);
    const response = await postJson(`${place.url}/v1/chat/completions`, {
      model: scriptedModel,
      messages: [{ role: "user", content }],
    });
    expect(response.status).to.equal(200);
    expect(place.providers[0]?.completions[0]?.body.length).to.be.greaterThan(19_000_000);
    await place.close();
  });

  it("serves metrics on a port of their own when told to, without a key and nothing else", async () => {
    place = await startTestGateway({ providers: [good], settings: { metricsPort: 0, apiKeys: ["some-secret-key"] } });
    const metrics = await fetch(`${place.gateway.metricsUrl ?? ""}/metrics`);
    expect(metrics.status).to.equal(200);
    expect(await metrics.text()).to.include("t4t_gateway_ready 1");
    expect((await fetch(`${place.gateway.metricsUrl ?? ""}/v1/models`)).status).to.equal(404);
    const onApi = await fetch(`${place.url}/metrics`, { headers: { authorization: "Bearer some-secret-key" } });
    expect(onApi.status).to.equal(404);
    await place.close();
  });

  it("refuses new requests while it drains, finishes those that run, and tells readiness", async () => {
    place = await startTestGateway({
      providers: [async (job) => [...(await acknowledged(oddStreams["a packet for every byte"])(job))]],
      settings: { drainMs: 5000 },
    });
    const running = await postJson(`${place.url}/v1/chat/completions`, {
      model: scriptedModel,
      messages,
      stream: true,
    });
    const closing = place.gateway.close();
    expect((await fetch(`${place.url}/readyz`)).status).to.equal(503);
    const refused = await postJson(`${place.url}/v1/chat/completions`, { model: scriptedModel, messages });
    expect(refused.status).to.equal(503);
    expect(refused.headers.get("connection")).to.equal("close");
    expect((await errorOf(refused)).code).to.equal("server_draining");
    expect(await running.text()).to.match(/data: \[DONE\]\n\n$/);
    await closing;
    await place.close();
  });
});
