import { expect } from "chai";
import { goodJson, oddStreams } from "../../support/upstream-scripts.ts";
import { acknowledged, scriptedModel } from "./scripted-provider.ts";
import { postJson, type TestGateway } from "./test-gateway.ts";

/** What a test's client says. */
export const messages = [{ role: "user", content: "Hello" }];
/** A request for a streamed answer. */
export const streamed = { model: scriptedModel, messages, max_tokens: 20, stream: true };
/** A request for a JSON answer. */
export const plain = { model: scriptedModel, messages, max_tokens: 20 };
/** A provider that answers `streamed` as it should. */
export const good = acknowledged(oddStreams.plain);
/** A provider that answers `plain` as it should. */
export const goodAnswer = acknowledged(goodJson);

/** An error as OpenAI's clients know it. */
interface ErrorAnswer {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string;
  };
}

/** The error of an answer; fails where its body is of another shape. */
export async function errorOf(response: Response): Promise<ErrorAnswer["error"]> {
  const body = (await response.json()) as ErrorAnswer;
  expect(body.error).to.have.all.keys("message", "type", "param", "code");
  return body.error;
}

/** Asks a gateway for a chat completion. A text is sent as it is. */
export async function chat(
  place: TestGateway,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<Response> {
  return await postJson(`${place.url}/v1/chat/completions`, body, { headers });
}
