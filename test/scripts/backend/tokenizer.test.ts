import { expect } from "chai";
import * as fc from "fast-check";
import { corpus } from "../../../scripts/backend/corpus.ts";
import { tokenizer } from "../../../scripts/backend/tokenizer.ts";
import { answerToken, beginToken, endToken, vocabulary } from "../../../scripts/backend/vocabulary.ts";

const anyText = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 60 }),
  fc
    .array(fc.constantFrom(...corpus.join(" ").split(" "), " ", "\n\n", "é", "日本", "🙂", "\u0000", "\uFEFF"), {
      maxLength: 30,
    })
    .map((words) => words.join(" ")),
);

describe("the tokenizer", () => {
  it("loses nothing of any text, so that no prompt is counted short", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        expect(tokenizer.decode(tokenizer.encode(text))).to.equal(text);
      }),
    );
  });

  it("never lets a text make a control token", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        expect(tokenizer.encode(text)).to.not.include.oneOf([endToken, beginToken, answerToken]);
      }),
    );
  });

  it("spells control tokens as no UTF-8 text can, so that llama.cpp's own tokenizer never finds one either", () => {
    const utf8 = new TextDecoder("utf-8", { fatal: true });
    for (const { kind, bytes } of vocabulary) {
      if (kind === "control" || kind === "unused") expect(() => utf8.decode(bytes)).to.throw(TypeError);
    }
  });

  it("holds a character back until its last byte, and never shows half of one", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const decoder = tokenizer.decoder();
        const shown = tokenizer.encode(text).map((token) => decoder.push(token));
        expect(shown.join("")).to.equal(text);
        expect(decoder.end()).to.equal("");
      }),
    );
  });

  it("counts one token for each word of the corpus", () => {
    expect(tokenizer.encode("The gateway takes a request and looks for a provider.")).to.have.length(11);
    expect(tokenizer.encode("")).to.deep.equal([]);
  });

  it("has the same vocabulary in every process: its size is part of the model file", () => {
    expect(vocabulary).to.have.length(832);
    expect(new Set(vocabulary.map(({ bytes }) => Buffer.from(bytes).toString("hex"))).size).to.equal(vocabulary.length);
  });
});
