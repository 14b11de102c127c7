import { expect } from "chai";
import OpenAI, { BadRequestError, NotFoundError } from "openai";
import { tokenizer } from "../../../scripts/backend/tokenizer.ts";
import type { Backend } from "../../../scripts/backend/server.ts";
import { until } from "../../support/until.ts";
import { closeBackends, textBackend } from "./support/backend.ts";

describe("the openai client on the backend", () => {
  let backend: Backend;
  let client: OpenAI;
  beforeEach(async () => {
    backend = await textBackend({ modelIds: ["org/tiny"], apiKey: "key" });
    client = new OpenAI({ baseURL: `${backend.url}/v1`, apiKey: "key", maxRetries: 0 });
  });
  afterEach(closeBackends);

  const messages = [{ role: "user" as const, content: "What is a slot?" }];

  it("gets the same text and usage streamed and in one piece", async () => {
    const whole = await client.chat.completions.create({ model: "org/tiny", messages });
    const stream = await client.chat.completions.create({
      model: "org/tiny",
      messages,
      stream: true,
      stream_options: { include_usage: true },
    });
    let text = "";
    let usage: OpenAI.CompletionUsage | null | undefined;
    const reasons: string[] = [];
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? "";
      usage = chunk.usage;
      const reason = chunk.choices[0]?.finish_reason;
      if (typeof reason === "string") reasons.push(reason);
    }
    expect(text).to.equal(whole.choices[0]?.message.content);
    expect(usage).to.include({
      completion_tokens: tokenizer.encode(text).length,
      prompt_tokens: whole.usage?.prompt_tokens,
    });
    expect(reasons).to.deep.equal(["stop"]);
  });

  it("assembles a stream with its helper", async () => {
    const runner = client.chat.completions.stream({ model: "org/tiny", messages, n: 2, max_tokens: 5 });
    const { choices } = await runner.finalChatCompletion();
    expect(choices.map(({ finish_reason, index }) => [index, finish_reason])).to.deep.equal([
      [0, "length"],
      [1, "length"],
    ]);
  });

  it("lists models and completes text", async () => {
    const ids: string[] = [];
    for await (const model of client.models.list()) ids.push(model.id);
    expect(ids).to.deep.equal(["org/tiny"]);
    expect((await client.models.retrieve("org/tiny")).owned_by).to.equal("t4t");
    const completion = await client.completions.create({ model: "org/tiny", prompt: "The gateway", max_tokens: 3 });
    expect(completion.choices[0]?.text).to.match(/^ /);
  });

  it("throws its own error classes", async () => {
    const unknown = await client.chat.completions.create({ model: "none", messages }).catch((error: unknown) => error);
    expect(unknown).to.be.instanceOf(NotFoundError).and.to.include({ code: "model_not_found", param: "model" });
    const invalid = await client.chat.completions
      .create({ model: "org/tiny", messages, temperature: 9 })
      .catch((error: unknown) => error);
    expect(invalid).to.be.instanceOf(BadRequestError).and.to.include({ param: "temperature" });
  });

  it("ends the work of the backend when it aborts a stream", async () => {
    const slow = await textBackend({ tokenDelayMs: 5 });
    const patient = new OpenAI({ baseURL: `${slow.url}/v1`, apiKey: "key", maxRetries: 0 });
    const stream = await patient.chat.completions.create({ model: "tiny", messages, stream: true });
    for await (const chunk of stream) if (chunk.choices[0]?.delta.content !== "") break;
    await until("the backend noticed", () => slow.stats().aborted === 1 && slow.stats().active === 0);
  });
});
