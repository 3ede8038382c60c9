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

    /// A `partialFailure` with the error of each failed item, or `nil` if nothing failed.
    var failure: CKError? { errors.isEmpty ? nil : CKError.partialFailure(errors) }
}
