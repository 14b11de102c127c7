// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";
import {IERC1271} from "@openzeppelin/contracts/interfaces/IERC1271.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";

import {IJobEscrow} from "../interfaces/IJobEscrow.sol";

/// @title ExampleClient
/// @notice A contract that is the client of its jobs: it holds the money, its owner posts, and a key of its choice signs
/// authorisations and receipts off chain, which providers and escrow check through ERC-1271.
contract ExampleClient is IERC1271, Ownable {
    using SafeERC20 for IERC20;

    IJobEscrow public immutable ESCROW;
    /// @notice The key that signs for the contract. It can spend what jobs have locked, on their providers, and nothing else.
    address public signer;

    event SignerChanged(address signer);

    constructor(IJobEscrow escrow, address owner_, address signer_) Ownable(owner_) {
        ESCROW = escrow;
        signer = signer_;
    }

    /// @notice Another key signs from now on; what the former one signed no longer counts.
    function setSigner(address signer_) external onlyOwner {
        signer = signer_;
        emit SignerChanged(signer_);
    }

    /// @notice Moves `amount` of the owner's tokens, which it has approved to this contract, into the escrow.
    function fund(uint256 amount) external onlyOwner {
        IERC20 token = IERC20(ESCROW.token());
        token.safeTransferFrom(msg.sender, address(this), amount);
        token.forceApprove(address(ESCROW), amount);
        ESCROW.deposit(amount);
    }

    /// @notice Gives the job to the first candidate that can take it.
    function post(address[] calldata candidates, IJobEscrow.JobTerms calldata terms)
        external
        onlyOwner
        returns (bytes32 jobId, address provider)
    {
        return ESCROW.postJobAny(candidates, terms);
    }

    /// @notice Asks for the money of a job that no provider took up.
    function cancel(bytes32 jobId) external onlyOwner {
        ESCROW.requestCancel(jobId);
    }

    /// @notice Takes free money out of the escrow, to the owner.
    function withdraw(uint256 amount) external onlyOwner {
        ESCROW.withdraw(amount, msg.sender);
    }

    /// @inheritdoc IERC1271
    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4) {
        (address recovered,,) = ECDSA.tryRecoverCalldata(hash, signature);
        // The comparison with zero: a signature that is none recovers to zero, and so might an unset signer be.
        bool valid = recovered != address(0) && recovered == signer;
        return valid ? IERC1271.isValidSignature.selector : bytes4(0xffffffff);
    }
}
