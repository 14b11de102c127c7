// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IJobEscrow} from "../../../contracts/interfaces/IJobEscrow.sol";
import {MarketRules} from "./MarketRules.sol";
import {vm} from "./Vm.sol";
import {
    ACKNOWLEDGEMENT,
    ACK_WINDOW,
    ACTORS,
    Broken,
    CANCELLED,
    CANCEL_REQUESTED,
    CLIENTS,
    EXPIRED,
    HASH,
    Job,
    OPEN,
    PROVIDERS,
    Provider,
    RESPONSE_WINDOW,
    SLASHED,
    STRANGER,
    World
} from "./World.sol";

/// @dev Calls of clients, and those that anybody can make.
abstract contract ClientSteps is MarketRules {
    function _deposit(World memory w) internal {
        uint256 who = _roll(w, _roll(w, 3) == 0 ? ACTORS : CLIENTS + 1);
        uint256 credited = _roll(w, ACTORS);
        uint256 amount = _roll(w, 8) == 0 ? 0 : _roll(w, 50_000);
        // Mostly a client that cannot pay for much.
        for (uint256 i = 0; i <= CLIENTS && amount > 10_000; ++i) {
            if (w.free[i] < 10_000) who = i;
        }
        bytes memory call = _roll(w, 4) == 0
            ? abi.encodeCall(_escrow.depositFor, (w.who[credited], amount))
            : abi.encodeCall(_escrow.deposit, (amount));
        if (bytes4(call) == _escrow.deposit.selector) credited = who;
        bool ok = _send(w, who, address(_escrow), call);
        if (ok != (_arrives(amount) != 0)) revert Broken(w.step, "a deposit of something is credited");
        if (ok) w.free[credited] += _arrives(amount);
        _checkAccount(w, credited);
        _checkAccount(w, who);
        _checkMoney(w);
    }

    function _withdraw(World memory w) internal {
        uint256 who = _roll(w, ACTORS);
        uint256 amount = _roll(w, (_roll(w, 12) == 0 ? w.free[who] : w.free[who] / 8) + 2);
        uint256 held = _token.balanceOf(w.who[who]);
        bool ok = _send(w, who, address(_escrow), abi.encodeCall(_escrow.withdraw, (amount, w.who[who])));
        if (ok != (amount != 0 && amount <= w.free[who])) {
            revert Broken(w.step, "free money can be withdrawn, and no more");
        }
        if (ok) w.free[who] -= amount;
        if (_token.balanceOf(w.who[who]) != held + (ok ? _arrives(amount) : 0)) {
            revert Broken(w.step, "what is withdrawn arrives");
        }
        _checkAccount(w, who);
        _checkMoney(w);
    }

    function _earn(World memory w) internal {
        uint256 p = _roll(w, PROVIDERS);
        uint256 actor = _anyOf(w, p);
        uint256 owner = _owner(p);
        uint256 amount = _roll(w, w.free[owner] + 2);
        uint256 held = _token.balanceOf(w.who[owner]);
        bool ok = _send(w, actor, address(_escrow), abi.encodeCall(_escrow.withdrawProvider, (w.who[owner], amount)));
        if (ok != (amount != 0 && amount <= w.free[owner] && _acts(w, actor, p))) {
            revert Broken(w.step, "a provider's accounts, and nobody else, collect what it has");
        }
        if (ok) w.free[owner] -= amount;
        if (_token.balanceOf(w.who[owner]) != held + (ok ? _arrives(amount) : 0)) {
            revert Broken(w.step, "earnings go to the payout");
        }
        _checkAccount(w, owner);
        _checkAccount(w, actor);
        _checkMoney(w);
    }

    function _post(World memory w) internal {
        uint256 client = _roll(w, CLIENTS + 1);
        (IJobEscrow.JobTerms memory terms, bool good) = _terms(w, client);
        uint256 p = _roll(w, PROVIDERS);
        address provider = w.who[_owner(p)];
        bool ok = _send(w, client, address(_escrow), abi.encodeCall(_escrow.postJob, (provider, terms)));
        if (ok != (good && _takes(w, p, terms))) {
            revert Broken(w.step, "a post gets a slot exactly if money, terms, price, stake and cap allow it");
        }
        if (ok) _posted(w, client, p, terms);
        _checkProvider(w, p);
        _checkAccount(w, client);
    }

    function _postAny(World memory w) internal {
        uint256 client = _roll(w, CLIENTS + 1);
        (IJobEscrow.JobTerms memory terms, bool good) = _terms(w, client);
        uint256 first = _roll(w, PROVIDERS);
        address[] memory candidates = new address[](PROVIDERS + 1);
        candidates[0] = w.who[STRANGER];
        uint256 chosen = PROVIDERS;
        for (uint256 i = 0; i < PROVIDERS; ++i) {
            uint256 p = (first + i) % PROVIDERS;
            candidates[i + 1] = w.who[_owner(p)];
            if (chosen == PROVIDERS && good && _takes(w, p, terms)) chosen = p;
        }
        vm.prank(w.who[client]);
        (bool ok, bytes memory answer) = address(_escrow).call(abi.encodeCall(_escrow.postJobAny, (candidates, terms)));
        if (ok != (chosen != PROVIDERS)) {
            revert Broken(w.step, "one candidate that can is enough, and none is too few");
        }
        if (ok) {
            (, address provider) = abi.decode(answer, (bytes32, address));
            if (provider != w.who[_owner(chosen)]) revert Broken(w.step, "the first candidate that can gets the job");
            _posted(w, client, chosen, terms);
        }
        for (uint256 i = 0; i < PROVIDERS; ++i) {
            _checkProvider(w, i);
        }
        _checkAccount(w, client);
    }

    function _requestCancel(World memory w) internal {
        Job memory job = _pick(w);
        uint256 actor = _roll(w, 8) == 0 ? _roll(w, ACTORS) : job.client;
        bool ok = _send(w, actor, address(_escrow), abi.encodeCall(_escrow.requestCancel, (job.id)));
        bool due = actor == job.client && job.status == OPEN && w.time >= job.postedAt + ACK_WINDOW;
        if (ok != due) revert Broken(w.step, "the client asks for its money back after the ack window");
        if (ok) {
            (job.status, job.since) = (CANCEL_REQUESTED, w.time);
            w.reached[CANCEL_REQUESTED]++;
        }
        _checkJob(w, job);
    }

    function _slash(World memory w) internal {
        Job memory job = _pick(w);
        for (uint256 i = 0; i < 6 && !job.consentOfOwner && !job.consentOfOperator; ++i) {
            job = _pick(w);
        }
        // Some of the time when it is due.
        if (job.deadline > w.time && _roll(w, 3) == 0) vm.warp(w.time = job.deadline);
        uint256 actor = _roll(w, 8) == 0 ? _roll(w, ACTORS) : job.client;
        uint256 signer = job.consentOfOwner ? _owner(job.provider) : _operator(job.provider);
        if (_roll(w, 2) == 0) signer = _roll(w, 2) == 0 ? STRANGER : CLIENTS + _roll(w, 2 * PROVIDERS);
        Provider memory p = w.providers[job.provider];
        bool consent = signer == _owner(job.provider)
            ? job.consentOfOwner
            : signer == _operator(job.provider) && job.consentOfOperator;
        // Who did not consent has signed nothing but the acknowledgement of another job.
        bytes32 signed = consent || signer == STRANGER ? job.id : HASH;
        bytes memory signature =
            _sign(signer, keccak256(abi.encode(ACKNOWLEDGEMENT, signed, w.who[_owner(job.provider)], HASH)));
        if (signer == _operator(job.provider)) {
            consent = consent && (!p.ownOperator || p.operatorLeftAt >= job.postedAt);
        }
        bool due = consent && _isLive(job) && actor == job.client && w.time >= job.deadline;
        bool ok = _send(w, actor, address(_escrow), abi.encodeCall(_escrow.slashJob, (job.id, HASH, signature)));
        if (ok != due) revert Broken(w.step, "no slash without consent, nor before the deadline, nor by a stranger");
        if (ok) {
            uint256 collateral = _collateral(job.maxPayment);
            uint256 fromStake = collateral < p.stake ? collateral : p.stake;
            uint256 rest = collateral - fromStake;
            uint256 fromUnbonding = rest < p.unbonding ? rest : p.unbonding;
            if (fromUnbonding != 0 && fromUnbonding == p.unbonding) p.unbondingAt = 0;
            p.stake -= fromStake;
            p.unbonding -= fromUnbonding;
            w.burnt += fromStake + fromUnbonding;
            if (p.stake < MIN_STAKE) p.active = false;
            _ended(w, job, SLASHED, 0);
            if (_registry.burntStake() != w.burnt) revert Broken(w.step, "what a slash takes is burnt");
        }
        _checkEnd(w, job, actor);
    }

    // ------------------------------------------------------------------------------------------------------ anybody

    function _finalizeCancel(World memory w) internal {
        Job memory job = _pick(w);
        for (uint256 i = 0; i < 6 && job.status != CANCEL_REQUESTED; ++i) {
            job = _pick(w);
        }
        uint256 actor = _roll(w, ACTORS);
        bool due = job.status == CANCEL_REQUESTED && w.time >= job.since + RESPONSE_WINDOW;
        bool ok = _send(w, actor, address(_escrow), abi.encodeCall(_escrow.finalizeCancel, (job.id)));
        if (ok != due) revert Broken(w.step, "anyone ends a cancel request that was not answered, nobody another job");
        if (ok) _ended(w, job, CANCELLED, 0);
        _checkEnd(w, job, actor);
    }

    function _expire(World memory w) internal {
        uint256 actor = _roll(w, ACTORS);
        Job[] memory jobs = new Job[](4);
        bytes32[] memory ids = new bytes32[](4);
        for (uint256 i = 0; i < 3; ++i) {
            jobs[i] = _pick(w);
        }
        jobs[3] = jobs[_roll(w, 3)];
        for (uint256 i = 0; i < 4; ++i) {
            ids[i] = jobs[i].id;
        }
        if (!_send(w, actor, address(_escrow), abi.encodeCall(_escrow.expireJobs, (ids)))) {
            revert Broken(w.step, "expiring never reverts");
        }
        for (uint256 i = 0; i < 4; ++i) {
            if (_isLive(jobs[i]) && w.time >= jobs[i].deadline) _ended(w, jobs[i], EXPIRED, 0);
        }
        for (uint256 i = 0; i < 3; ++i) {
            _checkEnd(w, jobs[i], actor);
        }
    }
}
