// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {JobEscrow} from "../../../contracts/JobEscrow.sol";
import {ProviderRegistry} from "../../../contracts/ProviderRegistry.sol";
import {IJobEscrow} from "../../../contracts/interfaces/IJobEscrow.sol";
import {IProviderRegistry} from "../../../contracts/interfaces/IProviderRegistry.sol";
import {FeeToken} from "../../../contracts/mocks/FeeToken.sol";
import {TestToken} from "../../../contracts/mocks/TestToken.sol";
import {vm} from "./Vm.sol";

/// @dev Plays everybody in one market: clients, providers, strangers, time. Whatever a call changes is checked against what
/// the handler has kept itself; what must hold at every moment is in {checkAlways}. No function reverts unless a rule is broken.
contract MarketHandler {
    struct Job {
        bytes32 id;
        uint256 client; // position among the actors
        uint256 provider;
        uint96 maxPayment;
        uint96 unsignedLimit;
        uint40 deadline;
        bool consented; // the provider has signed an acknowledgement
    }

    struct Ended {
        bytes32 id;
        IJobEscrow.JobStatus status;
    }

    /// @dev free + locked + tokens in hand of everybody, and the stake that is left.
    struct Wealth {
        uint256 client;
        uint256 provider;
        uint256 stake;
    }

    error Broken(string rule);

    uint256 private constant CLIENTS = 3;
    uint256 private constant PROVIDERS = 3;
    /// @dev Clients, owners, operators, a stranger. The first owner is also a client.
    uint256 private constant ACTORS = CLIENTS + 2 * PROVIDERS + 1;
    uint256 private constant STRANGER = ACTORS - 1;
    uint256 private constant MAX_LIVE = 12;
    uint256 private constant REMEMBERED = 6;
    bytes32 private constant HASH = keccak256("response");
    string private constant MODEL = "model";
    bytes32 private constant MODEL_KEY = keccak256("model");

    ProviderRegistry public immutable registry;
    JobEscrow public immutable escrow;
    TestToken public immutable token;
    bool private immutable HONEST_TOKEN;
    uint96 private immutable MIN_PAYMENT;
    uint256 private immutable COLLATERAL_BPS;
    bytes32 private immutable DOMAIN;

    address[ACTORS] private _actors;
    Job[] private _live;
    Ended[REMEMBERED] private _ended;
    uint256 private _endings;
    uint256 private _nonce;
    uint256 private _calls;
    uint256[PROVIDERS] private _open;
    uint256[PROVIDERS] private _exposure;
    uint256[ACTORS] private _locked;

    /// @dev How many calls did something, by kind: shows that a campaign reaches what it is about.
    mapping(bytes32 kind => uint256 count) public done;

    constructor(uint256 feeBps, uint256 minStake, uint256 collateralBps) {
        HONEST_TOKEN = feeBps == 0;
        token = feeBps == 0 ? new TestToken(6) : TestToken(address(new FeeToken(feeBps)));
        registry = new ProviderRegistry(
            address(token), address(this), ProviderRegistry.Parameters(minStake, 600, 4_000, collateralBps)
        );
        escrow = new JobEscrow(address(registry), address(this), JobEscrow.Parameters(1_000, 60, 3_600, 30, 60));
        registry.setMarket(address(escrow), true);
        MIN_PAYMENT = 1_000;
        COLLATERAL_BPS = collateralBps;
        DOMAIN = keccak256(
            abi.encode(
                keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                keccak256("T4T JobEscrow"),
                keccak256("1"),
                block.chainid,
                address(escrow)
            )
        );
        for (uint256 i = 0; i < ACTORS; ++i) {
            _actors[i] = vm.addr(_key(i));
            token.mint(_actors[i], 1e9);
            _as(i, address(token), abi.encodeCall(token.approve, (address(registry), type(uint256).max)));
            _as(i, address(token), abi.encodeCall(token.approve, (address(escrow), type(uint256).max)));
        }
        for (uint256 i = 0; i < PROVIDERS; ++i) {
            _as(
                _owner(i),
                address(registry),
                abi.encodeCall(registry.register, (_actors[_operator(i)], _actors[_owner(i)], "endpoint", 1e5))
            );
            _as(_operator(i), address(registry), abi.encodeCall(registry.setOffering, (MODEL, 1e6, 2e6, 1)));
        }
        for (uint256 i = 0; i < CLIENTS + 1; ++i) {
            _as(i, address(escrow), abi.encodeCall(escrow.deposit, (1e5)));
        }
    }

    // -------------------------------------------------------------------------------------------------- what people do

    function deposit(uint256 who, uint256 amount) external {
        who %= ACTORS;
        amount %= 50_000;
        uint256 before = _free(who);
        uint256 held = token.balanceOf(address(escrow));
        if (!_as(who, address(escrow), abi.encodeCall(escrow.deposit, (amount)))) return;
        done["deposit"]++;
        // Credited is what arrived, not what was sent.
        _require(_free(who) - before == token.balanceOf(address(escrow)) - held, "deposit credits what arrived");
    }

    function withdraw(uint256 who, uint256 amount) external {
        who %= ACTORS;
        uint256 free = _free(who);
        amount %= free + 2;
        bool ok = _as(who, address(escrow), abi.encodeCall(escrow.withdraw, (amount, _actors[who])));
        _require(ok == (amount != 0 && amount <= free), "free money can be withdrawn, and no more");
        if (ok) done["withdraw"]++;
    }

    function earn(uint256 provider, uint256 amount) external {
        provider %= PROVIDERS;
        uint256 free = _free(_owner(provider));
        if (free == 0) return;
        amount = 1 + (amount % free);
        address payout = registry.providerOf(_actors[_owner(provider)]).payout;
        uint256 before = token.balanceOf(payout);
        bytes memory call = abi.encodeCall(escrow.withdrawProvider, (_actors[_owner(provider)], amount));
        _require(_as(_operatorNow(provider), address(escrow), call), "a provider can collect");
        if (HONEST_TOKEN) _require(token.balanceOf(payout) == before + amount, "earnings go to the payout");
        done["earn"]++;
    }

    function post(uint256 client, uint256 provider, uint96 payment, uint96 limit, uint40 duration) external {
        client %= CLIENTS + 1;
        provider %= PROVIDERS;
        (, IJobEscrow.JobTerms memory terms) = _terms(payment, limit, duration);
        (uint32 open, uint32 cap) = _slots(provider);
        bool ok = _as(client, address(escrow), abi.encodeCall(escrow.postJob, (_actors[_owner(provider)], terms)));
        if (!ok) return;
        _require(cap == 0 || open < cap, "no slot beyond the cap");
        _posted(client, provider, terms);
        done["post"]++;
    }

    function postAny(uint256 client, uint256 order, uint96 payment, uint96 limit, uint40 duration) external {
        client %= CLIENTS + 1;
        (bytes32 nonce, IJobEscrow.JobTerms memory terms) = _terms(payment, limit, duration);
        address[] memory candidates = new address[](PROVIDERS);
        for (uint256 i = 0; i < PROVIDERS; ++i) {
            candidates[i] = _actors[_owner(((order % PROVIDERS) + i) % PROVIDERS)];
        }
        if (!_as(client, address(escrow), abi.encodeCall(escrow.postJobAny, (candidates, terms)))) return;
        address chosen = escrow.jobOf(escrow.jobIdOf(_actors[client], uint256(nonce))).provider;
        for (uint256 i = 0; i < PROVIDERS; ++i) {
            if (_actors[_owner(i)] != chosen) continue;
            (uint32 open, uint32 cap) = _slots(i);
            _require(cap == 0 || open <= cap, "no slot beyond the cap");
            _posted(client, i, terms);
        }
        done["postAny"]++;
    }

    function acknowledge(uint256 which, bool onChain, bool byOwner) external {
        if (_live.length == 0) return;
        Job storage job = _live[which % _live.length];
        job.consented = true;
        if (!onChain) return;
        uint256 actor = byOwner ? _owner(job.provider) : _operatorNow(job.provider);
        if (_as(actor, address(escrow), abi.encodeCall(escrow.ackJob, (job.id)))) done["acknowledge"]++;
    }

    /// @param mode 0: with the receipt, 1: without, 2: with somebody else's, 3: by somebody else.
    function complete(uint256 which, uint64 input, uint64 output, uint256 mode, bool batched) external {
        if (_live.length == 0) return;
        uint256 at = which % _live.length;
        Job memory job = _live[at];
        mode %= 4;
        IJobEscrow.Usage memory usage = IJobEscrow.Usage(input % 6_000, output % 6_000);
        bytes memory signature = mode == 1 ? bytes("") : _receipt(job, usage, mode == 2 ? STRANGER : job.client);
        uint256 actor = mode == 3 ? job.client : _operatorNow(job.provider);
        bool foreign = actor != _owner(job.provider) && mode == 3;

        Wealth memory before = _wealth(job);
        bytes memory call;
        if (batched) {
            IJobEscrow.Completion[] memory items = new IJobEscrow.Completion[](2);
            items[0] = IJobEscrow.Completion(job.id, usage, HASH, signature);
            items[1] = items[0];
            call = abi.encodeCall(escrow.completeJobs, (items));
        } else {
            call = abi.encodeCall(escrow.completeJob, (job.id, usage, HASH, signature));
        }
        bool ok = _as(actor, address(escrow), call);
        bool completed = escrow.jobOf(job.id).status == IJobEscrow.JobStatus.Completed;
        _require(batched ? ok : ok == completed, "a batch does not revert");
        _require(completed == !(mode == 2 || foreign), "the provider, with a good claim, completes");
        if (!completed) return;

        Wealth memory later = _wealth(job);
        uint256 price = usage.inputTokens + 2 * uint256(usage.outputTokens);
        uint256 limit = mode == 1 ? job.unsignedLimit : job.maxPayment;
        uint256 payment = price < limit ? price : limit;
        if (job.client == _owner(job.provider)) payment = 0;
        _require(before.client - later.client == payment, "the client pays the price, at most the limit");
        if (payment != 0) _require(later.provider - before.provider == payment, "the provider gets what was paid");
        _require(before.stake == later.stake, "a completion costs no stake");
        _endedAt(at, IJobEscrow.JobStatus.Completed);
        done["complete"]++;
    }

    function decline(uint256 which, bool byOwner) external {
        if (_live.length == 0) return;
        uint256 at = which % _live.length;
        Job memory job = _live[at];
        Wealth memory before = _wealth(job);
        uint256 actor = byOwner ? _owner(job.provider) : _operatorNow(job.provider);
        _require(_as(actor, address(escrow), abi.encodeCall(escrow.declineJob, (job.id))), "a provider can decline");
        _refunded(at, before, IJobEscrow.JobStatus.Declined);
        done["decline"]++;
    }

    function requestCancel(uint256 which) external {
        if (_live.length == 0) return;
        Job memory job = _live[which % _live.length];
        if (_as(job.client, address(escrow), abi.encodeCall(escrow.requestCancel, (job.id)))) done["requestCancel"]++;
    }

    function finalizeCancel(uint256 which, uint256 who) external {
        if (_live.length == 0) return;
        uint256 at = which % _live.length;
        Job memory job = _live[at];
        Wealth memory before = _wealth(job);
        if (!_as(who % ACTORS, address(escrow), abi.encodeCall(escrow.finalizeCancel, (job.id)))) return;
        _refunded(at, before, IJobEscrow.JobStatus.Cancelled);
        done["finalizeCancel"]++;
    }

    function expire(uint256 which, uint256 who) external {
        if (_live.length == 0) return;
        uint256 at = which % _live.length;
        Job memory job = _live[at];
        Wealth memory before = _wealth(job);
        bytes32[] memory ids = new bytes32[](3);
        (ids[0], ids[1], ids[2]) = (_ended[which % REMEMBERED].id, job.id, job.id);
        bool ok = _as(who % ACTORS, address(escrow), abi.encodeCall(escrow.expireJobs, (ids)));
        _require(ok, "expiring never reverts");
        bool expired = escrow.jobOf(job.id).status == IJobEscrow.JobStatus.Expired;
        _require(expired == (block.timestamp >= job.deadline), "whoever calls after the deadline expires, nobody before");
        if (!expired) return;
        _refunded(at, before, IJobEscrow.JobStatus.Expired);
        done["expire"]++;
    }

    function slash(uint256 which, bool signedByOwner, bool forged) external {
        if (_live.length == 0) return;
        uint256 at = which % _live.length;
        Job memory job = _live[at];
        uint256 signer = forged ? STRANGER : signedByOwner ? _owner(job.provider) : _operator(job.provider);
        // A provider that did not consent has signed nothing but its acknowledgement of another job.
        bytes memory signature = _acknowledgement(job, signer, job.consented || forged ? job.id : HASH);
        Wealth memory before = _wealth(job);
        uint256 burnt = registry.burntStake();
        bytes memory call = abi.encodeCall(escrow.slashJob, (job.id, HASH, signature));
        if (!_as(job.client, address(escrow), call)) return;
        _require(job.consented && !forged, "no slash without consent");
        _require(block.timestamp >= job.deadline, "no slash before the deadline");
        Wealth memory later = _wealth(job);
        burnt = registry.burntStake() - burnt;
        _require(burnt <= job.maxPayment, "no slash above the payment");
        _require(before.stake - later.stake == burnt, "what a slash takes is burnt");
        _require(before.client == later.client && before.provider == later.provider, "nobody gains by a slash");
        _endedAt(at, IJobEscrow.JobStatus.Slashed);
        done["slash"]++;
    }

    // ------------------------------------------------------------------------------------------- what providers do

    function beat(uint256 provider) external {
        _as(_operatorNow(provider % PROVIDERS), address(registry), abi.encodeCall(registry.heartbeat, ()));
    }

    function setCap(uint256 provider, uint32 cap) external {
        uint256 actor = _operatorNow(provider % PROVIDERS);
        _as(actor, address(registry), abi.encodeCall(registry.setMaxConcurrentJobs, (cap % 5)));
    }

    function reprice(uint256 provider) external {
        // The same prices in a new record: what changes is the id.
        uint256 actor = _operatorNow(provider % PROVIDERS);
        _as(actor, address(registry), abi.encodeCall(registry.setOffering, (MODEL, 1e6, 2e6, 1)));
    }

    function rotate(uint256 provider, bool toOwner) external {
        provider %= PROVIDERS;
        address next = _actors[toOwner ? _owner(provider) : _operator(provider)];
        _as(_owner(provider), address(registry), abi.encodeCall(registry.setOperator, (next)));
    }

    function comeAndGo(uint256 provider) external {
        provider %= PROVIDERS;
        bool active = registry.providerOf(_actors[_owner(provider)]).active;
        bytes memory call = active ? abi.encodeCall(registry.deactivate, ()) : abi.encodeCall(registry.reactivate, ());
        if (_as(_owner(provider), address(registry), call)) done["comeAndGo"]++;
    }

    function addStake(uint256 provider, uint256 amount) external {
        provider %= PROVIDERS;
        _as(_owner(provider), address(registry), abi.encodeCall(registry.addStake, (amount % 20_000)));
    }

    function unbond(uint256 provider, uint256 amount) external {
        provider %= PROVIDERS;
        uint256 stake = registry.providerOf(_actors[_owner(provider)]).stake;
        amount = amount % (stake + 2);
        if (_as(_owner(provider), address(registry), abi.encodeCall(registry.startUnbonding, (amount)))) done["unbond"]++;
    }

    function withdrawStake(uint256 provider) external {
        provider %= PROVIDERS;
        IProviderRegistry.ProviderView memory row = registry.providerOf(_actors[_owner(provider)]);
        bool ok = _as(_owner(provider), address(registry), abi.encodeCall(registry.withdrawStake, ()));
        bool due = row.unbonding != 0 && block.timestamp >= row.unbondingAt;
        _require(ok == due, "unbonded stake can be withdrawn, whatever any client does");
        if (ok) done["withdrawStake"]++;
    }

    function sweep(uint256 who) external {
        _as(who % ACTORS, address(registry), abi.encodeCall(registry.sweepBurntStake, ()));
    }

    function pauseOrNot(uint256 dice) external {
        if (dice % 8 == 0 && !escrow.paused()) escrow.pause();
        else if (escrow.paused()) escrow.unpause();
    }

    function pass(uint256 time) external {
        vm.warp(block.timestamp + (time % 100));
    }

    function passLong(uint256 time) external {
        if (time % 8 == 0) vm.warp(block.timestamp + (time % 4_100));
        else vm.warp(block.timestamp + (time % 700));
    }

    /// @dev Every job that is open has an exit that needs neither party.
    function everybodyLeaves(uint256 dice) external {
        if (dice % 16 == 0) checkExits();
    }

    // ------------------------------------------------------------------------------------------------- what must hold

    function checkExits() public {
        uint256 count = _live.length;
        if (count == 0) return;
        bytes32[] memory ids = new bytes32[](count);
        uint256 latest;
        for (uint256 i = 0; i < count; ++i) {
            ids[i] = _live[i].id;
            if (_live[i].deadline > latest) latest = _live[i].deadline;
        }
        if (block.timestamp < latest) vm.warp(latest);
        if (!escrow.paused()) escrow.pause();
        _require(_as(STRANGER, address(escrow), abi.encodeCall(escrow.expireJobs, (ids))), "a stranger can expire");
        escrow.unpause();
        for (uint256 i = count; i > 0; --i) {
            _endedAt(i - 1, IJobEscrow.JobStatus.Expired);
        }
        for (uint256 i = 0; i < ACTORS; ++i) {
            _require(escrow.accountOf(_actors[i]).locked == 0, "nothing stays locked");
        }
        checkAlways();
        done["everybodyLeaves"]++;
    }

    function checkAlways() public view {
        uint256 owed;
        for (uint256 i = 0; i < ACTORS; ++i) {
            IJobEscrow.AccountView memory account = escrow.accountOf(_actors[i]);
            _require(account.locked == _locked[i], "locked is what open jobs hold");
            owed += uint256(account.free) + account.locked;
        }
        uint256 held = token.balanceOf(address(escrow));
        _require(held == owed, "the escrow holds what it owes");

        uint256 staked = registry.burntStake();
        for (uint256 i = 0; i < PROVIDERS; ++i) {
            IProviderRegistry.ProviderView memory row = registry.providerOf(_actors[_owner(i)]);
            _require(row.openJobs == _open[i], "openJobs counts the jobs that have not ended");
            _require(row.exposure == _exposure[i], "exposure is the collateral of open jobs");
            _require(row.lastSeen <= block.timestamp, "lastSeen is not later than now");
            _require((row.unbonding == 0) == (row.unbondingAt == 0), "unbonding has a time");
            staked += uint256(row.stake) + row.unbonding;
        }
        _require(token.balanceOf(address(registry)) == staked, "the registry holds stake, unbonding and burnt");

        // One of the open and one of the ended jobs each time, in turn: reading all of them would be most of the work.
        if (_live.length != 0) {
            uint8 status = uint8(escrow.jobOf(_live[_calls % _live.length].id).status);
            _require(status >= 1 && status <= 3, "nothing ends a job unseen");
        }
        Ended storage ended = _ended[_calls % REMEMBERED];
        _require(escrow.jobOf(ended.id).status == ended.status, "an end is never left");
    }

    // --------------------------------------------------------------------------------------------------------- inside

    function _posted(uint256 client, uint256 provider, IJobEscrow.JobTerms memory terms) private {
        bytes32 id = escrow.jobIdOf(_actors[client], terms.nonce);
        _live.push(Job(id, client, provider, terms.maxPayment, terms.unsignedLimit, terms.deadline, false));
        _open[provider] += 1;
        _exposure[provider] += (terms.maxPayment * COLLATERAL_BPS) / 10_000;
        _locked[client] += terms.maxPayment;
    }

    function _refunded(uint256 at, Wealth memory before, IJobEscrow.JobStatus status) private {
        Job memory job = _live[at];
        Wealth memory later = _wealth(job);
        bool same = before.client == later.client && before.provider == later.provider && before.stake == later.stake;
        _require(same, "a refund makes nobody richer or poorer");
        _endedAt(at, status);
    }

    function _endedAt(uint256 at, IJobEscrow.JobStatus status) private {
        Job memory job = _live[at];
        _open[job.provider] -= 1;
        _exposure[job.provider] -= (job.maxPayment * COLLATERAL_BPS) / 10_000;
        _locked[job.client] -= job.maxPayment;
        _ended[_endings++ % REMEMBERED] = Ended(job.id, status);
        _live[at] = _live[_live.length - 1];
        _live.pop();
    }

    function _terms(uint96 payment, uint96 limit, uint40 duration)
        private
        returns (bytes32 nonce, IJobEscrow.JobTerms memory terms)
    {
        nonce = bytes32(++_nonce);
        payment = MIN_PAYMENT + (payment % 10_000);
        // One job too many is one with a payment that nobody has.
        if (_live.length >= MAX_LIVE) payment = type(uint96).max;
        terms = IJobEscrow.JobTerms({
            nonce: uint256(nonce),
            modelKey: MODEL_KEY,
            maxPayment: payment,
            unsignedLimit: limit % (payment + 1),
            maxInputPrice: 1e6,
            maxOutputPrice: 2e6,
            deadline: uint40(block.timestamp) + 60 + (duration % 600)
        });
    }

    function _wealth(Job memory job) private view returns (Wealth memory wealth) {
        IJobEscrow.AccountView memory client = escrow.accountOf(_actors[job.client]);
        wealth.client = uint256(client.free) + client.locked;
        IJobEscrow.AccountView memory provider = escrow.accountOf(_actors[_owner(job.provider)]);
        wealth.provider = uint256(provider.free) + provider.locked;
        IProviderRegistry.ProviderView memory row = registry.providerOf(_actors[_owner(job.provider)]);
        wealth.stake = uint256(row.stake) + row.unbonding;
    }

    function _slots(uint256 provider) private view returns (uint32 open, uint32 cap) {
        IProviderRegistry.ProviderView memory row = registry.providerOf(_actors[_owner(provider)]);
        return (row.openJobs, row.maxConcurrentJobs);
    }

    function _free(uint256 who) private view returns (uint256) {
        return escrow.accountOf(_actors[who]).free;
    }

    function _receipt(Job memory job, IJobEscrow.Usage memory usage, uint256 signer)
        private
        view
        returns (bytes memory)
    {
        bytes32 structHash = keccak256(
            abi.encode(
                escrow.RECEIPT_TYPEHASH(),
                job.id,
                _actors[_owner(job.provider)],
                usage.inputTokens,
                usage.outputTokens,
                HASH
            )
        );
        return _sign(signer, structHash);
    }

    function _acknowledgement(Job memory job, uint256 signer, bytes32 id) private view returns (bytes memory) {
        address provider = _actors[_owner(job.provider)];
        return _sign(signer, keccak256(abi.encode(escrow.ACKNOWLEDGEMENT_TYPEHASH(), id, provider, HASH)));
    }

    function _sign(uint256 signer, bytes32 structHash) private view returns (bytes memory) {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(_key(signer), keccak256(abi.encodePacked("\x19\x01", DOMAIN, structHash)));
        return abi.encodePacked(r, s, v);
    }

    function _as(uint256 actor, address target, bytes memory call) private returns (bool ok) {
        ++_calls;
        vm.prank(_actors[actor]);
        (ok,) = target.call(call);
    }

    function _key(uint256 actor) private pure returns (uint256) {
        return 0xa11ce + actor;
    }

    function _owner(uint256 provider) private pure returns (uint256) {
        return CLIENTS + provider;
    }

    function _operator(uint256 provider) private pure returns (uint256) {
        return CLIENTS + PROVIDERS + provider;
    }

    function _operatorNow(uint256 provider) private view returns (uint256) {
        bool own = registry.providerOf(_actors[_owner(provider)]).operator == _actors[_owner(provider)];
        return own ? _owner(provider) : _operator(provider);
    }

    function _require(bool holds, string memory rule) private pure {
        if (!holds) revert Broken(rule);
    }
}
