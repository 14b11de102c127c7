import { expect } from "chai";
import {
  CommandLineError,
  decimal,
  helpOf,
  list,
  readCommandLine,
  text,
  toggle,
  wholeNumber,
} from "../../scripts/command-line.ts";

const command = {
  name: "npm run try --",
  about: "Tries something.",
  options: {
    rounds: wholeNumber({ about: "rounds", fallback: 3, least: 1, most: 9 }),
    minutes: decimal({ placeholder: "MINUTES", about: "time to take", fallback: undefined, least: 0 }),
    sizes: list(wholeNumber({ about: "sizes", fallback: undefined, least: 1 }), "N,N,...", [1, 10]),
    name: text("TEXT", "name\nof it", undefined),
    json: toggle("JSON"),
  },
  examples: ["--rounds 4 --json"],
};

/** What is wrong with a command line. */
function faultsOf(...args: readonly string[]): readonly string[] {
  try {
    readCommandLine(command, args);
    return [];
  } catch (error) {
    if (!(error instanceof CommandLineError)) throw error;
    return error.faults;
  }
}

describe("the command line of a script", () => {
  it("gives every option its type, and its default where it is not given", () => {
    expect(readCommandLine(command, [])).to.deep.equal({
      help: false,
      values: { rounds: 3, minutes: undefined, sizes: [1, 10], name: undefined, json: false },
      operands: [],
    });
    expect(
      readCommandLine(command, ["--rounds=4", "--minutes", "0.5", "--sizes", "2,30", "--name", "-x", "--json"]),
    ).to.deep.include({ values: { rounds: 4, minutes: 0.5, sizes: [2, 30], name: "-x", json: true } });
  });

  it("names an option that does not exist and those that do, not the word behind it", () => {
    const known = "--rounds, --minutes, --sizes, --name, --json, --help";
    expect(faultsOf("--round", "4")).to.deep.equal([`there is no option --round; there are ${known}`]);
    expect(faultsOf("-r")).to.deep.equal([`there is no option -r; there are ${known}`]);
    expect(faultsOf("--toString")).to.deep.equal([`there is no option --toString; there are ${known}`]);
    expect(faultsOf("--no-json")).to.deep.equal([`there is no option --no-json; there are ${known}`]);
  });

  it("refuses each value that would become NaN, a default or another number, with what it must be", () => {
    for (const bad of ["x", "", " ", "0", "10", "-1", "1.5", "1e0", "0x2", "NaN", "Infinity"]) {
      expect(faultsOf("--rounds", bad), bad).to.deep.equal([
        `--rounds must be a whole number from 1 to 9, not "${bad}"`,
      ]);
    }
    expect(faultsOf("--minutes", "-1")).to.deep.equal(['--minutes must be a number from 0 up, not "-1"']);
    expect(faultsOf("--sizes", "1,,2")).to.deep.equal([
      '--sizes must be a whole number from 1 up, or several with commas between, not "1,,2"',
    ]);
    expect(faultsOf("--sizes", "9007199254740993")).to.have.length(1);
    expect(faultsOf("--name", "")).to.deep.equal(['--name must be a text that is not empty, not ""']);
  });

  it("takes no option for a value, and no value for a switch", () => {
    expect(faultsOf("--rounds", "--json")).to.deep.equal(["--rounds needs a value: --rounds N"]);
    expect(faultsOf("--minutes")).to.deep.equal(["--minutes needs a value: --minutes MINUTES"]);
    expect(faultsOf("--json=no")).to.deep.equal(['--json takes no value, so not "no"']);
  });

  it("tells of a word that npm left when it took the options for its own", () => {
    expect(faultsOf("4")).to.deep.equal([
      '"4" is no option, and nothing else is taken; options begin with -- and follow npm run try --',
    ]);
    const { operands } = readCommandLine({ ...command, operands: "FILE" }, ["a", "--json", "b"]) as {
      readonly operands: readonly string[];
    };
    expect(operands).to.deep.equal(["a", "b"]);
  });

  it("names every fault at once", () => {
    expect(faultsOf("--rounds", "x", "--who", "--json=1")).to.have.length(3);
  });

  it("prefers help to faults", () => {
    for (const help of ["--help", "-h"])
      expect(readCommandLine(command, ["--who", help])).to.deep.equal({ help: true });
  });

  it("helps with every option, its unit, its default and an example", () => {
    expect(helpOf({ ...command, operands: "FILE ..." })).to.equal(`npm run try -- FILE ... [OPTION ...]

Tries something.

  --rounds N         rounds (3)
  --minutes MINUTES  time to take
  --sizes N,N,...    sizes (1,10)
  --name TEXT        name
                     of it
  --json             JSON
  --help             this text

For example:
  npm run try -- --rounds 4 --json`);
  });
});
