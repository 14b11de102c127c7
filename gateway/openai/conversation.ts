import { T4tError } from "../../protocol/errors.ts";
import { isObject, jsonLength, type JsonObject } from "./field-types.ts";

/** Tokens that a picture, sound or file behind a URL may become: its bytes are not in the body. */
export const remoteMediaTokens = 4096;
/** Characters of the conversation that routing may see; of one that comes as tokens, so many of them. */
const routingTextLength = 1024;
const routingTokens = 256;

/** What the gateway knows of a prompt without a tokenizer. */
export interface Conversation {
  /** Prompts in the request; each is answered for itself. */
  readonly prompts: number;
  /** UTF-8 bytes of its text. */
  readonly textBytes: number;
  /** Pictures, sounds and files, and those of them whose bytes are not in the body. */
  readonly media: number;
  readonly remoteMedia: number;
  /** Its first characters; of one that comes as tokens, these as text. */
  readonly routingText: string;
}

/** Reads `messages`. Throws `missing_required_parameter` or `invalid_value`, naming the member. */
export function readMessages(json: JsonObject): Conversation {
  const { messages } = json;
  if (messages === undefined || messages === null) {
    throw new T4tError("missing_required_parameter", "Missing required parameter: 'messages'.", { param: "messages" });
  }
  if (!Array.isArray(messages))
    throw new T4tError("invalid_value", "'messages' must be an array.", { param: "messages" });
  if (messages.length === 0)
    throw new T4tError("invalid_value", "'messages' must not be empty.", { param: "messages" });
  const measure = new TextMeasure();
  for (const [index, message] of (messages as unknown[]).entries()) {
    const param = `messages[${index}]`;
    if (!isObject(message)) throw new T4tError("invalid_value", `'${param}' must be an object.`, { param });
    if (typeof message.role !== "string") {
      throw new T4tError("invalid_value", `'${param}.role' must be a string.`, { param: `${param}.role` });
    }
    requireContent(message, message.role, param);
    measure.addContent(message.content, `${param}.content`);
    if (message.tool_calls !== undefined && message.tool_calls !== null)
      measure.addLength(jsonLength(message.tool_calls, `${param}.tool_calls`));
  }
  if (Array.isArray(json.tools)) measure.addLength(jsonLength(json.tools, "tools"));
  return { prompts: 1, ...measure.result() };
}

/** Roles whose messages are nothing without content. */
const speakingRoles: ReadonlySet<string> = new Set(["system", "developer", "user", "tool"]);

/** No backend answers a message that says nothing: better told now than after a job was posted for it. */
function requireContent(message: JsonObject, role: string, param: string): void {
  if (message.content !== undefined && message.content !== null) return;
  // An assistant may have called tools, refused, or spoken: whatever it did stands in a member of its own.
  const isBare = Object.entries(message).every(
    ([name, value]) => name === "role" || name === "name" || value === undefined || value === null,
  );
  if (!isBare && !speakingRoles.has(role)) return;
  throw new T4tError("missing_required_parameter", `Missing required parameter: '${param}.content'.`, {
    param: `${param}.content`,
  });
}

/** The kinds of parts that every backend knows must hold what they announce. */
function checkPart(part: JsonObject, param: string): void {
  if (part.type === "text" && typeof part.text !== "string") {
    throw new T4tError("invalid_value", `'${param}.text' must be a string.`, { param: `${param}.text` });
  }
  if (part.type !== "image_url") return;
  // Some clients give the bare URL.
  const url = isObject(part.image_url) ? part.image_url.url : part.image_url;
  if (typeof url === "string" && url !== "") return;
  throw new T4tError("invalid_value", `'${param}.image_url.url' must be a string.`, {
    param: `${param}.image_url.url`,
  });
}

/** Reads `prompt`. Throws `missing_required_parameter` or `invalid_value`. */
export function readPrompt(json: JsonObject): Conversation {
  const { prompt } = json;
  if (prompt === undefined || prompt === null) {
    throw new T4tError("missing_required_parameter", "Missing required parameter: 'prompt'.", { param: "prompt" });
  }
  const measure = new TextMeasure();
  if (typeof prompt === "string") {
    measure.addText(prompt);
    return { prompts: 1, ...measure.result() };
  }
  if (!Array.isArray(prompt) || prompt.length === 0) {
    throw new T4tError("invalid_value", "'prompt' must be a string or a non-empty array.", { param: "prompt" });
  }
  const items = prompt as unknown[];
  if (items.every((item) => typeof item === "number")) {
    measure.addTokens(items);
    return { prompts: 1, ...measure.result() };
  }
  for (const item of items) {
    if (typeof item === "string") measure.addText(item);
    else if (Array.isArray(item) && item.every((token) => typeof token === "number")) measure.addTokens(item);
    else throw new T4tError("invalid_value", "'prompt' must hold strings or arrays of tokens.", { param: "prompt" });
  }
  return { prompts: items.length, ...measure.result() };
}

class TextMeasure {
  #textBytes = 0;
  #media = 0;
  #remoteMedia = 0;
  #routingText = "";

  addLength(length: number): void {
    this.#textBytes += length;
  }

  addText(text: string): void {
    this.#textBytes += Buffer.byteLength(text);
    this.#addRoutingText(text);
  }

  addTokens(tokens: readonly number[]): void {
    this.#textBytes += tokens.length * 4;
    this.#addRoutingText(tokens.slice(0, routingTokens).join(" "));
  }

  #addRoutingText(text: string): void {
    const room = routingTextLength - this.#routingText.length;
    if (room > 0) this.#routingText += text.slice(0, room);
  }

  addContent(content: unknown, param: string): void {
    if (content === undefined || content === null) return;
    if (typeof content === "string") {
      this.addText(content);
      return;
    }
    if (!Array.isArray(content))
      throw new T4tError("invalid_value", `'${param}' must be a string or an array.`, { param });
    if (content.length === 0) throw new T4tError("invalid_value", `'${param}' must not be empty.`, { param });
    for (const [index, part] of (content as unknown[]).entries()) {
      if (!isObject(part))
        throw new T4tError("invalid_value", `'${param}[${index}]' must be an object.`, { param: `${param}[${index}]` });
      checkPart(part, `${param}[${index}]`);
      if (typeof part.text === "string") this.addText(part.text);
      else this.#addMedia(part);
    }
  }

  #addMedia(part: JsonObject): void {
    this.#media += 1;
    const inline = Object.values(part).some(
      (value) =>
        isObject(value) &&
        Object.values(value).some((inner) => typeof inner === "string" && inner.length > remoteMediaTokens),
    );
    if (!inline) this.#remoteMedia += 1;
  }

  result(): Omit<Conversation, "prompts"> {
    return {
      textBytes: this.#textBytes,
      media: this.#media,
      remoteMedia: this.#remoteMedia,
      routingText: this.#routingText,
    };
  }
}
