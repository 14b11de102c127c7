import { expect } from "chai";
import { type LocalNetwork, startLocalNetwork } from "../../scripts/network/local-network.ts";
import { type HttpAnswer, type HttpSend, openRaw, parseAnswer, sendHttp } from "../support/http-request.ts";
import { contractEvents, providerOnChain, testModel, testOffering } from "../support/network.ts";
import { until } from "../support/until.ts";

const megabyte = 1024 * 1024;
/** A model id with everything that ids of real registries have, and more. */
const oddModel = "org-1/модель 🦙:v1.2@q4+é";
const messages = [{ role: "user", content: "Hello" }];
const good = { model: testModel, messages, max_tokens: 3 };

/** One bad request body and what it must be answered with. */
interface BadBody {
  readonly name: string;
  readonly body: string | Buffer;
  readonly status: number;
  readonly code: string;
  readonly param?: string | null;
  /** Found out by selection, so that the job route, which takes a job before it selects, tells of it in the job. */
  readonly late?: true;
}

/** A good request with one field set to a bad value. */
function field(name: string, value: unknown, code = "invalid_value", param: string = name): BadBody {
  const shown = JSON.stringify(value);
  return {
    name: `${name} ${shown.length > 40 ? `${shown.slice(0, 40)}…` : shown}`,
    body: JSON.stringify({ ...good, [name]: value }),
    status: 400,
    code,
    param,
  };
}

function badMessages(value: unknown, param: string): BadBody {
  return field("messages", value, "invalid_value", param);
}

const deep = `${"[".repeat(200_000)}${"]".repeat(200_000)}`;

const badRequests: readonly BadBody[] = [
  ...["[]", '"text"', "42", "null", "true"].map((body) => ({
    name: `the JSON ${body} instead of an object`,
    body,
    status: 400,
    code: "invalid_json",
  })),
  field("messages", null, "missing_required_parameter"),
  badMessages("hello", "messages"),
  badMessages({}, "messages"),
  badMessages([], "messages"),
  badMessages([1], "messages[0]"),
  badMessages([null], "messages[0]"),
  badMessages([...messages, { content: "x" }], "messages[1].role"),
  badMessages([{ role: 5, content: "x" }], "messages[0].role"),
  badMessages([{ role: "user", content: 5 }], "messages[0].content"),
  badMessages([{ role: "user", content: ["x"] }], "messages[0].content[0]"),
  field("model", 5),
  field("model", { id: testModel }),
  field("model", "", "missing_required_parameter"),
  field("stream", "yes"),
  field("stream", 1),
  field("stream_options", 5),
  { ...field("stream_options", { include_usage: "yes" }), param: "stream_options.include_usage" },
  ...["max_tokens", "max_completion_tokens"].flatMap((name) =>
    [-1, 0, 1.5, "10", true, [5], 2 ** 53].map((value) => field(name, value)),
  ),
  {
    name: "max_tokens 1e400",
    body: JSON.stringify({ ...good, max_tokens: 777 }).replace("777", "1e400"),
    status: 400,
    code: "invalid_value",
    param: "max_tokens",
  },
  { ...field("max_tokens", Number.MAX_SAFE_INTEGER, "context_length_exceeded", "messages"), late: true },
  ...[-1, 0, 129, 1.5, "2", 2 ** 53].map((value) => field("n", value)),
  field("temperature", "hot"),
  field("top_p", []),
  field("seed", 1.5),
  field("stop", 5),
  field("user", 5),
  field("tools", {}),
  field("tool_choice", 5),
  field("response_format", "json"),
  field("logit_bias", []),
  field("logprobs", "yes"),
  field("parallel_tool_calls", "yes"),
  field("metadata", "x"),
  {
    name: "max_tokens given twice",
    body: `{"max_tokens":1,${JSON.stringify(good).slice(1)}`,
    status: 400,
    code: "invalid_value",
    param: "max_tokens",
  },
  {
    name: "a field given twice under two spellings",
    body: `{"m\\u006fdel":"other",${JSON.stringify(good).slice(1)}`,
    status: 400,
    code: "invalid_value",
    param: "model",
  },
  ...["nobody/serves-this", "модель/🦙", "../../etc/passwd", "\u0000\u0007", "\ud800"].map((model) => ({
    ...field("model", model, "model_not_found"),
    status: 404,
    late: true as const,
  })),
  { ...field("model", "x".repeat(10_240), "model_not_found"), status: 404 },
];

const malformed: readonly BadBody[] = [
  { name: "an empty body", body: "" },
  { name: "white space", body: " \n\t " },
  { name: "half an object", body: '{"model": "t4t/tiny", "messages": [' },
  { name: "a trailing comma", body: '{"request":{"model":"t4t/tiny",}}' },
  { name: "text after the object", body: `${JSON.stringify({ ...good, request: good })}x` },
  { name: "single quotes", body: "{'model':'x'}" },
  { name: "NaN", body: '{"max_tokens":NaN}' },
  { name: "a form", body: "model=x&messages=y" },
  { name: "UTF-16", body: Buffer.from(JSON.stringify(good), "utf16le") },
  {
    name: "bytes that are not UTF-8",
    body: Buffer.concat([
      Buffer.from('{"request":{"model":"x","messages":[{"role":"user","content":"'),
      Buffer.from([0xff, 0xfe, 0xc3]),
      Buffer.from('"}]},"model":"x","messages":[{"role":"user","content":"x"}]}'),
    ]),
  },
].map((bad) => ({ ...bad, status: 400, code: "invalid_json" }));

/** The two routes that take requests, and how a body gets into each. */
const routes = [
  { path: "/v1/chat/completions", wrap: (body: string | Buffer) => Buffer.from(body) },
  {
    path: "/v1/jobs",
    wrap: (body: string | Buffer) => Buffer.concat([Buffer.from('{"request":'), Buffer.from(body), Buffer.from("}")]),
  },
] as const;

describe("bad input at the gateway's port", function () {
  this.timeout(120_000);
  let network: LocalNetwork;
  let url: string;

  before(async () => {
    network = await startLocalNetwork({
      providers: [
        { name: "provider-1", maxConcurrentJobs: 0, offerings: [testOffering(), testOffering(2n, oddModel)] },
      ],
      backend: { engine: "text", models: ["tiny"] },
    });
    url = network.gateways[0]?.url ?? "";
  });

  after(async () => {
    await network.stop();
  });

  async function post(path: string, body: Buffer | string, headers: Record<string, string> = {}): Promise<HttpAnswer> {
    return await sendHttp(url, path, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: [Buffer.from(body)],
    });
  }

  /** Every error has OpenAI's four keys, a request id, and nothing of our insides. */
  function expectError(
    answer: HttpAnswer,
    status: number,
    code: string | undefined,
    param?: string | null,
    sent = "the request",
  ): void {
    expect(answer.status, `${sent}: ${answer.text.slice(0, 300)}`).to.equal(status);
    expect(answer.headers["x-request-id"], `${sent}: x-request-id`)
      .to.be.a("string")
      .and.match(/^[\x21-\x7e]+$/);
    expect(answer.headers["content-type"], sent).to.equal("application/json");
    const body = JSON.parse(answer.text) as { error: Record<string, unknown> };
    expect(Object.keys(body), sent).to.deep.equal(["error"]);
    expect(body.error, sent).to.have.all.keys("message", "type", "param", "code");
    expect(body.error.message, sent).to.be.a("string").and.not.equal("");
    expect(String(body.error.message).length, `${sent}: a message that a log can hold`).to.be.lessThan(1000);
    expect(body.error.message, sent).to.not.match(/node:|\.ts\b|\bat Object|undefined|0x[0-9a-f]{64}/);
    if (code !== undefined) expect(body.error.code, sent).to.equal(code);
    if (param !== undefined) expect(body.error.param, sent).to.equal(param);
  }

  async function jobsPosted(): Promise<number> {
    return (await contractEvents(network)).escrow.filter(({ eventName }) => eventName === "JobPosted").length;
  }

  for (const { path, wrap } of routes) {
    describe(`POST ${path}`, () => {
      it("refuses a body that is not JSON with invalid_json", async () => {
        for (const { name, body, status, code } of malformed) {
          expectError(await post(path, body), status, code, null, name);
        }
      });

      it("refuses a bad field with its name in param, streamed or not, and never as a 200", async () => {
        for (const { name, body, status, code, param, late } of badRequests) {
          if (late === true && path === "/v1/jobs") continue;
          expectError(await post(path, wrap(body)), status, code, param, name);
          const text = String(body);
          if (!text.startsWith("{") || name.startsWith("stream")) continue;
          const streamed = wrap(`{"stream":true,${text.slice(1)}`);
          expectError(await post(path, streamed), status, code, param, `${name}, streamed`);
        }
      });

      it("refuses an unknown progress mode by the header's name", async () => {
        const answer = await post(path, wrap(JSON.stringify(good)), { "x-t4t-progress": "loud" });
        expectError(answer, 400, "invalid_value", "x-t4t-progress");
      });

      it("does not fall over a value that is nested deeper than any stack", async () => {
        for (const [name, value] of [
          ["tools", deep],
          ["messages[0].tool_calls", `[{"role":"user","content":"x","tool_calls":${deep}}]`],
          ["messages[0]", deep],
          ["stream_options", `{"a":${deep}}`],
        ] as const) {
          const member = name.split("[")[0] ?? name;
          const body = JSON.stringify({ ...good, stream: true, [member]: 777 }).replace("777", value);
          expectError(await post(path, wrap(body)), 400, "invalid_value", name, name);
        }
      });

      it("refuses a body that is not announced as JSON", async () => {
        for (const type of [undefined, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]) {
          const answer = await sendHttp(url, path, {
            method: "POST",
            headers: type === undefined ? {} : { "content-type": type },
            body: [wrap(JSON.stringify(good))],
          });
          expectError(answer, 400, "unsupported_content_type", null, `content type ${type}`);
        }
      });

      it("answers a body over the limit with 413, whole, and closes the connection", async () => {
        const piece = Buffer.alloc(megabyte, 0x20);
        const sends: readonly (readonly [string, HttpSend])[] = [
          ["announced 21 MB", { body: Array.from({ length: 21 }, () => piece) }],
          ["25 MB in chunks", { body: Array.from({ length: 25 }, () => piece), chunked: true }],
          ["a lie of 1 TB", { body: [piece], headers: { "content-length": String(2 ** 40), expect: "100-continue" } }],
        ];
        for (const [name, send] of sends) {
          const answer = await sendHttp(url, path, {
            method: "POST",
            ...send,
            headers: { "content-type": "application/json", ...send.headers },
          });
          expectError(answer, 413, "request_too_large", null, name);
          expect(answer.headers.connection, name).to.equal("close");
        }
      });
    });
  }

  it("keeps the status code of an early error for clients that asked for progress events", async () => {
    const unknown = JSON.stringify({ ...good, model: "nobody/serves-this", stream: true });
    for (const mode of ["event", "chunk", "comment", "off"]) {
      const answer = await post("/v1/chat/completions", unknown, { "x-t4t-progress": mode });
      expectError(answer, 404, "model_not_found", "model", mode);
    }
  });

  it("takes 19 MB of prompt and says that it is longer than the model's context", async () => {
    const content = "word ".repeat(Math.floor((19 * megabyte) / 5));
    const body = JSON.stringify({ ...good, messages: [{ role: "user", content }] });
    expectError(await post("/v1/chat/completions", body), 400, "context_length_exceeded", "messages");
  });

  it("ends a job that nobody can take with the same code, as its last event and in its document", async () => {
    for (const { name, body, code } of badRequests.filter(({ late }) => late === true)) {
      const events = await post("/v1/jobs", `{"request":${String(body)}}`, { accept: "text/event-stream" });
      expect(events.status, name).to.equal(200);
      const last = events.text.trimEnd().split("\n\n").at(-1) ?? "";
      expect(last, name).to.match(/^id: \d+\nevent: failed\ndata: /);
      expect(JSON.parse(last.slice(last.indexOf("data: ") + 6)), name).to.include({ code });
      const id = String(events.headers["x-t4t-job-id"]);
      const job = JSON.parse((await sendHttp(url, `/v1/jobs/${id}`)).text) as {
        status: string;
        error: { code: string };
      };
      expect(job.status, name).to.equal("failed");
      expect(job.error.code, name).to.equal(code);
    }
  });

  it("passes on what it does not know, however deep, without harm to the provider", async () => {
    for (const [name, value] of [
      ["unknown_field", deep],
      ["metadata", `{"a":${deep}}`],
    ] as const) {
      for (const stream of [false, true]) {
        const body = JSON.stringify({ ...good, stream, [name]: 777 }).replace("777", value);
        const answer = await post("/v1/chat/completions", body);
        expect(answer.status, `${name}: ${answer.text.slice(0, 200)}`).to.equal(200);
      }
    }
  });

  it("refuses a job that is none by the name of its field", async () => {
    const cases: readonly (readonly [string, string, string])[] = [
      ["{}", "missing_required_parameter", "request"],
      ['{"request":null}', "invalid_json", ""],
      ['{"request":{},"type":"embeddings"}', "invalid_value", "type"],
      ['{"request":{},"type":5}', "invalid_value", "type"],
      ['{"request":{},"type":"constructor"}', "invalid_value", "type"],
      [`{"request":${JSON.stringify(good)},"stream":"yes"}`, "invalid_value", "stream"],
    ];
    for (const [body, code, param] of cases) {
      expectError(await post("/v1/jobs", body), 400, code, param === "" ? undefined : param, body);
    }
  });

  it("refuses a job with two requests: it could be priced by one and run by the other", async () => {
    const cheap = JSON.stringify({ ...good, max_tokens: 1 });
    const dear = JSON.stringify({ ...good, max_tokens: 20_000 });
    expectError(await post("/v1/jobs", `{"request":${cheap},"request":${dear}}`), 400, "invalid_value", "request");
  });

  it("answers unknown URLs with 404 and known ones with another method with 405 and Allow", async () => {
    for (const target of [
      "/",
      "//",
      "/v1",
      "/v2/chat/completions",
      "/v1/chat/completions/x",
      "/v1/chat",
      "/v1/embeddings",
      "/v1/models/%",
      "/v1/models/%ff%fe",
      "/v1/../etc/passwd",
      "/%2e%2e/%2e%2e/etc/passwd",
      `/${"a".repeat(12_000)}`,
      "/favicon.ico",
    ]) {
      for (const method of ["GET", "POST", "DELETE"]) {
        expectError(
          await sendHttp(url, target, { method }),
          404,
          "unknown_url",
          null,
          `${method} ${target.slice(0, 40)}`,
        );
      }
    }
    for (const [method, target, allow] of [
      ["GET", "/v1/chat/completions", "POST"],
      ["PUT", "/v1/chat/completions", "POST"],
      ["OPTIONS", "/v1/chat/completions", "POST"],
      ["TRACE", "/v1/chat/completions", "POST"],
      ["DELETE", "/v1/jobs", "GET, POST"],
      ["POST", "/v1/models", "GET, HEAD"],
      ["PATCH", "/healthz", "GET, HEAD"],
    ] as const) {
      const answer = await sendHttp(url, target, { method });
      expectError(answer, 405, "method_not_allowed", null, `${method} ${target}`);
      expect(answer.headers.allow, `${method} ${target}`).to.equal(allow);
    }
  });

  it("answers HEAD without a body and with a request id", async () => {
    for (const [target, status] of [
      ["/v1/chat/completions", 405],
      ["/v1/jobs", 405],
      ["/v1/models", 200],
      ["/healthz", 200],
      ["/nothing", 404],
    ] as const) {
      const answer = await sendHttp(url, target, { method: "HEAD" });
      expect(answer.status, target).to.equal(status);
      expect(answer.text, target).to.equal("");
      expect(answer.headers["x-request-id"], target).to.be.a("string");
    }
  });

  it("answers for jobs and models that are not there, whatever is asked for", async () => {
    for (const target of ["/v1/jobs/x", `/v1/jobs/0x${"0".repeat(64)}`, "/v1/jobs/0x/events", "/v1/jobs/%00"]) {
      expectError(await sendHttp(url, target), 404, "job_not_found", undefined, target);
    }
    for (const id of ["none", "a/b/c", "%2F", "модель", "x".repeat(10_000), "__proto__", "%00"]) {
      const target = `/v1/models/${encodeURI(id).replaceAll("%25", "%")}`;
      expectError(await sendHttp(url, target), 404, "model_not_found", "model", target.slice(0, 60));
    }
    for (const query of ["limit=0", "limit=1000", "limit=x", "limit=-1", "before=x", "limit=1e3"]) {
      expectError(await sendHttp(url, `/v1/jobs?${query}`), 400, "invalid_value", query.split("=")[0], query);
    }
  });

  it("answers what is no HTTP, or too much of it, in the same shape before it hangs up", async () => {
    const cases: readonly (readonly [string, string, number])[] = [
      ["a header of 20 kB", `GET /healthz HTTP/1.1\r\nhost: x\r\nx-bomb: ${"a".repeat(20_000)}\r\n\r\n`, 431],
      [
        "five thousand headers",
        `GET /healthz HTTP/1.1\r\nhost: x\r\n${Array.from({ length: 5000 }, (_, index) => `x-${index}: y\r\n`).join("")}\r\n`,
        431,
      ],
      ["a URL of 20 kB", `GET /${"a".repeat(20_000)} HTTP/1.1\r\nhost: x\r\n\r\n`, 431],
      ["no HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n", 400],
      ["an unknown version", "GET / HTTP/9.9\r\nhost: x\r\n\r\n", 400],
      [
        "two framings of one body",
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
      ],
      ["two lengths", "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\ncontent-length: 5\r\n\r\nabcde", 400],
      ["a negative length", "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: -4\r\n\r\n", 400],
    ];
    for (const [name, text, status] of cases) {
      const raw = await openRaw(url);
      raw.write(text);
      const answer = parseAnswer(await raw.received);
      expectError(answer, status, undefined, undefined, name);
      expect(answer.headers.connection, name).to.equal("close");
    }
  });

  it("echoes a short printable request id and mints one in place of any other", async () => {
    const echoed = await sendHttp(url, "/healthz", { headers: { "x-request-id": "client-1:a/b" } });
    expect(echoed.headers["x-request-id"]).to.equal("client-1:a/b");
    for (const given of ["", "two words", "x".repeat(129), "é"]) {
      const { headers } = await sendHttp(url, "/healthz", { headers: { "x-request-id": given } });
      expect(headers["x-request-id"]).to.match(/^req_[0-9a-f]{24}$/);
    }
  });

  it("serves others while a hundred clients send their bodies byte by byte, and forgets those that leave", async () => {
    const body = JSON.stringify(good);
    const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`;
    const slow = await Promise.all(Array.from({ length: 100 }, async () => await openRaw(url)));
    for (const client of slow) client.write(head + body.slice(0, 1));
    const before = await jobsPosted();
    expect((await post("/v1/chat/completions", body)).status).to.equal(200);
    // One of them goes on in small pieces and gets its answer; the others leave half way.
    const [patient, ...others] = slow;
    for (const byte of body.slice(1)) patient?.write(byte);
    for (const { socket } of others) socket.destroy();
    const answered = new Promise<void>((resolve) => {
      patient?.socket.on("data", (chunk: Buffer) => {
        if (chunk.includes('"choices"')) resolve();
      });
    });
    await answered;
    patient?.socket.destroy();
    await until("no request runs any more", async () => {
      const { text } = await sendHttp(url, "/metrics");
      return /^t4t_gateway_running_requests 0$/m.test(text);
    });
    expect((await jobsPosted()) - before, "a body that never came was paid for").to.equal(2);
  });

  it("serves a model whose id has slashes, spaces and letters of every kind", async () => {
    const list = JSON.parse((await sendHttp(url, "/v1/models")).text) as { data: { id: string }[] };
    expect(list.data.map(({ id }) => id)).to.have.members([testModel, oddModel]);
    for (const id of [encodeURIComponent(oddModel), encodeURI(oddModel)]) {
      const answer = await sendHttp(url, `/v1/models/${id}`);
      expect(answer.status, id).to.equal(200);
      expect((JSON.parse(answer.text) as { id: string }).id).to.equal(oddModel);
    }
    for (const stream of [false, true]) {
      const answer = await post("/v1/chat/completions", JSON.stringify({ ...good, model: oddModel, stream }));
      expect(answer.status, answer.text).to.equal(200);
      if (stream) expect(answer.text.trimEnd().endsWith("data: [DONE]"), answer.text).to.equal(true);
    }
  });

  it("serves a request without max_tokens and one with the most that the context holds", async () => {
    for (const bound of [undefined, null, 32_000]) {
      const answer = await post(
        "/v1/chat/completions",
        JSON.stringify({ ...good, max_tokens: bound, max_completion_tokens: bound, stop: [" "] }),
      );
      expect(answer.status, `${bound}: ${answer.text}`).to.equal(200);
    }
  });

  // A describe of its own, as mocha runs the tests of this one first.
  describe("after all of it", () => {
    it("was never brought to a 500", async () => {
      const { text } = await sendHttp(url, "/metrics");
      expect(text).to.not.match(/^t4t_gateway_answers_total\{[^}]*status="500"/m);
      expect(text).to.not.match(/^t4t_gateway_faults_total\{where="(?:http|journal)"\} [1-9]/m);
      expect((await sendHttp(url, "/readyz")).status).to.equal(200);
    });

    it("has no job open and no provider blamed", async () => {
      await until("every job has ended", async () =>
        /^t4t_gateway_open_jobs 0$/m.test((await sendHttp(url, "/metrics")).text),
      );
      const { text } = await sendHttp(url, "/metrics");
      expect(text).to.not.match(/^t4t_gateway_attempt_failures_total\{[^}]*\} [1-9]/m);
      const provider = network.providers[0];
      expect((await providerOnChain(network, provider?.address ?? "0x")).openJobs).to.equal(0);
    });
  });
});
