import { expect } from "chai";
import fc from "fast-check";
import { SortedTree } from "../../../../gateway/routing/pool/sorted-tree.ts";
import type { NodeView, TreeShape, Visitor } from "../../../../gateway/routing/pool/tree-node.ts";

interface Item {
  readonly key: number;
  readonly value: number;
}

const shape: TreeShape<Item> = {
  compare: (a, b) => a.key - b.key,
  summaryWidth: 2,
  summarise: ({ value }) => [value, -value],
};

const item = fc.record({ key: fc.nat(400), value: fc.nat(100) });
const batch = fc.array(fc.record({ put: fc.boolean(), item }), { maxLength: 120 });

function apply(tree: SortedTree<Item>, model: Map<number, Item>, changes: readonly Change[]) {
  return tree.edit((edit) => {
    for (const change of changes) {
      if (change.put) {
        edit.put(change.item);
        model.set(change.item.key, change.item);
      } else {
        expect(edit.delete(change.item)).to.equal(model.delete(change.item.key));
      }
    }
  });
}

interface Change {
  readonly put: boolean;
  readonly item: Item;
}

const sorted = (model: Map<number, Item>): Item[] => [...model.values()].toSorted((a, b) => a.key - b.key);

describe("SortedTree", () => {
  it("holds what was put and not deleted, in order, and leaves every older version as it was", () => {
    fc.assert(
      fc.property(fc.array(batch, { maxLength: 12 }), (batches) => {
        let tree = SortedTree.empty(shape);
        const model = new Map<number, Item>();
        const versions: (readonly [SortedTree<Item>, Item[]])[] = [];
        for (const changes of batches) {
          tree = apply(tree, model, changes);
          versions.push([tree, sorted(model)]);
        }
        for (const [version, expected] of versions) {
          expect([...version]).to.deep.equal(expected);
          expect(version.size).to.equal(expected.length);
        }
      }),
    );
  });

  it("finds by rank, by element and by bound as an array would", () => {
    fc.assert(
      fc.property(batch, fc.nat(450), (changes, bound) => {
        const model = new Map<number, Item>();
        const tree = apply(SortedTree.empty(shape), model, changes);
        const expected = sorted(model);
        expected.forEach((element, rank) => expect(tree.at(rank)).to.equal(element));
        expect(tree.at(expected.length)).to.equal(undefined);
        expect(tree.at(-1)).to.equal(undefined);
        expect(tree.get({ key: bound, value: 0 })).to.equal(model.get(bound));
        const rank = tree.rankOf(({ key }) => key < bound);
        expect(rank).to.equal(expected.filter(({ key }) => key < bound).length);
        expect([...tree.from(rank)]).to.deep.equal(expected.slice(rank));
      }),
    );
  });

  it("counts and lists by summary what a scan would", () => {
    fc.assert(
      fc.property(batch, fc.nat(100), (changes, limit) => {
        const model = new Map<number, Item>();
        const tree = apply(SortedTree.empty(shape), model, changes);
        const expected = sorted(model).filter(({ value }) => value <= limit);
        const visit: Visitor = (summaries, at) => {
          if (summaries[at]! > limit) return "skip";
          return -summaries[at + 1]! <= limit ? "take" : "enter";
        };
        const matches = ({ value }: Item) => value <= limit;
        expect(tree.count(visit, matches)).to.equal(expected.length);
        expect([...tree.matching(visit, matches)]).to.deep.equal(expected);
      }),
    );
  });

  it("is the same object when an edit changes nothing", () => {
    const tree = SortedTree.empty(shape).edit((edit) => edit.put({ key: 1, value: 1 }));
    expect(tree.edit((edit) => edit.delete({ key: 2, value: 0 }))).to.equal(tree);
  });

  it("stays shallow when most of a large tree is removed", () => {
    const full = SortedTree.empty(shape).edit((edit) => {
      for (let key = 0; key < 50_000; key += 1) edit.put({ key, value: key });
    });
    const thin = full.edit((edit) => {
      for (let key = 0; key < 50_000; key += 1) if (key % 1000 !== 0) edit.delete({ key, value: 0 });
    });
    expect(thin.size).to.equal(50);
    const leavesOf = (node: NodeView<Item>): number =>
      node.kind === "leaf" ? 1 : node.children.reduce((sum, child) => sum + leavesOf(child), 0);
    const leaves = thin.root === undefined ? 0 : leavesOf(thin.root);
    expect(leaves).to.be.at.most(13);
    expect(thin.summary).to.deep.equal([0, -49_000]);
  });
});
