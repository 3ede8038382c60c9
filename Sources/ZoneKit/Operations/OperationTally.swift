/// What an operation that saves and deletes has come to.
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

    /// What the result block is told.
    var result: Result<Void, any Error> {
        CKError.operationResult(of: errors, anySucceeded: !saved.isEmpty || !deleted.isEmpty)
    }

    /// `partialFailure` with each item's own error; `nil` when nothing failed.
    var failure: CKError? { errors.isEmpty ? nil : CKError.partialFailure(errors) }
}

extension CKError {
    /// What an operation's result block is told where only single items have failed.
    ///
    /// That is a success, since each failure was told by itself, except where every item failed because its zone does not
    /// exist: programs that create their zone when it is missing wait for `partialFailure` here, as CloudKit gives it.
    static func operationResult(of errors: [AnyHashable: any Error], anySucceeded: Bool) -> Result<Void, any Error> {
        guard !errors.isEmpty, !anySucceeded, errors.values.allSatisfy(isOfMissingZone) else { return .success(()) }
        return .failure(partialFailure(errors))
    }

    private static func isOfMissingZone(_ error: any Error) -> Bool {
        let code = (error as? CKError)?.code
        return code == .zoneNotFound || code == .userDeletedZone
    }
}
