/// The results of an operation that saves and deletes.
struct OperationTally<Item, ID: Hashable> {
    private(set) var saved: [Item] = []
    private(set) var deleted: [ID] = []
    private var errors: [AnyHashable: any Error] = [:]

    mutating func saved(_ id: ID, _ result: Result<Item, any Error>) {
        switch result {
        case .success(let item): saved.append(item)
        case .failure(let error): errors[id] = error
        }
    }

    mutating func deleted(_ id: ID, _ result: Result<Void, any Error>) {
        switch result {
        case .success: deleted.append(id)
        case .failure(let error): errors[id] = error
        }
    }

    /// The result for the operation's result block.
    var result: Result<Void, any Error> {
        CKError.operationResult(of: errors, anySucceeded: !saved.isEmpty || !deleted.isEmpty)
    }

    /// A `partialFailure` with the error of each failed item, or `nil` if nothing failed.
    var failure: CKError? { errors.isEmpty ? nil : CKError.partialFailure(errors) }
}

extension CKError {
    /// Returns the result for an operation's result block if the request itself succeeded.
    ///
    /// Item errors are reported one by one, so the operation succeeds, unless every item failed because its zone does not
    /// exist: programs that create a missing zone expect `partialFailure` here, as from CloudKit.
    static func operationResult(of errors: [AnyHashable: any Error], anySucceeded: Bool) -> Result<Void, any Error> {
        guard !errors.isEmpty, !anySucceeded, errors.values.allSatisfy(isOfMissingZone) else { return .success(()) }
        return .failure(partialFailure(errors))
    }

    private static func isOfMissingZone(_ error: any Error) -> Bool {
        let code = (error as? CKError)?.code
        return code == .zoneNotFound || code == .userDeletedZone
    }
}
