import { expect } from "chai";
import * as fc from "fast-check";
import { z } from "zod";
import {
  addressSetting,
  amountSetting,
  booleanSetting,
  choiceSetting,
  integerSetting,
  listSetting,
  numberSetting,
  parsePrivateKey,
  privateKeySetting,
  urlSetting,
} from "../../protocol/setting-kinds.ts";
import { readSettings, type SettingFault, SettingsError, settingsHelp } from "../../protocol/settings.ts";

const shape = {
  T4T_JOBS: integerSetting({ min: 0, max: 4_294_967_295 }).default(2),
  T4T_RATIO: numberSetting({ min: 0, max: 10 }).default(0.2),
  T4T_URL: urlSetting(),
  T4T_KEY: privateKeySetting().optional(),
  T4T_MODE: choiceSetting(["fast", "slow"]).optional(),
} as const;

const url = "http://127.0.0.1:8545";
const key = `0x${"ab".repeat(32)}`;

const fault: SettingFault = { variable: "T4T_KEY", message: "is needed in this mode" };

function needsKey(settings: { readonly T4T_KEY: string | undefined }): SettingFault[] {
  return settings.T4T_KEY === undefined ? [fault] : [];
}

function faultsOf(run: () => unknown): readonly SettingFault[] {
  try {
    run();
  } catch (error) {
    if (error instanceof SettingsError) return error.faults;
    throw error;
  }
  return [];
}

describe("readSettings", () => {
  it("gives typed values with defaults for what is unset", () => {
    const settings = readSettings(shape, { T4T_URL: url, T4T_JOBS: "7", PATH: "/bin" });
    const jobs: number = settings.T4T_JOBS;
    expect(jobs).to.equal(7);
    expect(settings).to.deep.equal({
      T4T_JOBS: 7,
      T4T_RATIO: 0.2,
      T4T_URL: url,
      T4T_KEY: undefined,
      T4T_MODE: undefined,
    });
  });

  it("freezes the result, so that no part of a program can change another's settings", () => {
    expect(Object.isFrozen(readSettings(shape, { T4T_URL: url }))).to.equal(true);
  });

  it("names every fault at once, so that an operator does not fix them one restart at a time", () => {
    const faults = faultsOf(() => readSettings(shape, { T4T_JOBS: "-1", T4T_RATIO: "lots", T4T_MODE: "warp" }));
    expect(faults.map((fault) => fault.variable)).to.have.members(["T4T_JOBS", "T4T_RATIO", "T4T_URL", "T4T_MODE"]);
    expect(faults.find((fault) => fault.variable === "T4T_MODE")?.message).to.equal("must be one of fast, slow");
    expect(faults.find((fault) => fault.variable === "T4T_URL")?.message).to.match(/^is not set; it must be a URL/);
  });

  it("says each fault with the variable's name in the error's message", () => {
    expect(() => readSettings(shape, {})).to.throw(SettingsError, /T4T_URL: is not set/);
  });

  it("refuses an unknown T4T_ variable and names the one that was meant", () => {
    const faults = faultsOf(() => readSettings(shape, { T4T_URL: url, T4T_JOB: "3" }));
    expect(faults).to.deep.equal([{ variable: "T4T_JOB", message: "is not a setting; did you mean T4T_JOBS?" }]);
  });

  it("lets variables of sibling programs be, so that one environment file can serve both", () => {
    expect(() =>
      readSettings(shape, { T4T_URL: url, T4T_OTHER_PROGRAM: "3" }, { alsoKnown: ["T4T_OTHER_PROGRAM"] }),
    ).not.to.throw();
  });

  it("takes a blank variable as unset", () => {
    expect(readSettings(shape, { T4T_URL: ` ${url} `, T4T_JOBS: "  " })).to.include({ T4T_JOBS: 2, T4T_URL: url });
  });

  it("never repeats a value, whatever variable a secret was pasted into", () => {
    fc.assert(
      fc.property(
        fc.stringMatching(/^[0-9a-f]{64}$/),
        fc.constantFrom(...Object.keys(shape), "T4T_UNKNOWN"),
        (secret, variable) => {
          fc.pre(variable !== "T4T_KEY");
          try {
            readSettings(shape, { [variable]: `0x${secret}` });
            expect.fail("accepted");
          } catch (error) {
            expect(String(error)).not.to.include(secret.slice(0, 8));
          }
        },
      ),
    );
  });

  it("checks rules over several variables together with each alone, so that no fault waits for the next start", () => {
    const named = (environment: Record<string, string>) =>
      faultsOf(() => readSettings(shape, environment, { check: needsKey })).map(({ variable }) => variable);
    expect(named({ T4T_URL: url })).to.deep.equal(["T4T_KEY"]);
    expect(named({ T4T_URL: "x" })).to.deep.equal(["T4T_URL", "T4T_KEY"]);
    expect(named({})).to.deep.equal(["T4T_URL", "T4T_KEY"]);
  });

  it("tells no rule's fault that only follows from a variable that is wrong by itself", () => {
    const check = (settings: { readonly T4T_KEY: string | undefined; readonly T4T_JOBS: number }): SettingFault[] => {
      expect(settings.T4T_JOBS, "its default").to.equal(2);
      return settings.T4T_KEY === undefined ? [fault, { variable: "T4T_MODE", message: "needs T4T_KEY" }] : [];
    };
    const faults = faultsOf(() => readSettings(shape, { T4T_URL: url, T4T_KEY: "x", T4T_JOBS: "many" }, { check }));
    expect(faults.map(({ variable }) => variable)).to.deep.equal(["T4T_JOBS", "T4T_KEY"]);
  });

  it("lists a program's variables with default and rule, for those who start it without any", () => {
    const lines = settingsHelp(shape).split("\n");
    expect(lines).to.have.length(Object.keys(shape).length);
    expect(lines.find((line) => line.includes("T4T_RATIO"))).to.match(/^ {2}T4T_RATIO +0\.2 +a number from 0 to 10$/);
    expect(lines.find((line) => line.includes("T4T_URL"))).to.match(/ required +a URL/);
  });

  it("works with any zod schema", () => {
    expect(
      readSettings({ T4T_JSON: z.string().transform((text): unknown => JSON.parse(text)) }, { T4T_JSON: "[1]" })
        .T4T_JSON,
    ).to.deep.equal([1]);
  });
});

describe("kinds of settings", () => {
  it("refuse what only looks like a number", () => {
    const schema = integerSetting({ min: 0, max: 100 });
    for (const text of ["0x10", "1e2", "1.0", "", " ", "NaN", "Infinity", "101", "-1", "5seconds"]) {
      expect(schema.safeParse(text).success, text).to.equal(false);
    }
    expect(numberSetting({ min: 0, max: 10 }).safeParse("1e1").success).to.equal(false);
  });

  it("read every amount up to uint96 exactly and nothing above", () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: (1n << 96n) - 1n }), (amount) => {
        expect(amountSetting().parse(String(amount))).to.equal(amount);
      }),
    );
    expect(amountSetting().safeParse(String(1n << 96n)).success).to.equal(false);
    expect(amountSetting().safeParse("1.5").success).to.equal(false);
  });

  it("return addresses with their checksum and refuse a wrong one", () => {
    const checksummed = "0x5FbDB2315678afecb367f032d93F642f64180aa3";
    expect(addressSetting().parse(checksummed.toLowerCase())).to.equal(checksummed);
    expect(addressSetting().safeParse(checksummed.replace("D", "d")).success).to.equal(false);
  });

  it("read private keys with and without 0x and refuse other lengths and zero", () => {
    expect(parsePrivateKey(`${key.slice(2)}\n`)).to.equal(key);
    for (const text of ["", "0x", key.slice(0, -1), `${key}0`, `0x${"00".repeat(32)}`, "zz".repeat(32)]) {
      expect(parsePrivateKey(text), text).to.equal(undefined);
    }
  });

  it("read lists and booleans", () => {
    expect(listSetting().parse(" a, ,b ")).to.deep.equal(["a", "b"]);
    expect(listSetting().safeParse(" , ").success).to.equal(false);
    expect(booleanSetting().parse("1")).to.equal(true);
    expect(booleanSetting().safeParse("yes").success).to.equal(false);
  });

  it("refuse URLs of another scheme", () => {
    for (const text of ["file:///etc/passwd", "localhost:8545", "http://", "javascript:alert(1)"]) {
      expect(urlSetting().safeParse(text).success, text).to.equal(false);
    }
  });
});
