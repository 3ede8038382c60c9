extension CKDatabase {
    /// Runs calls with settings of their own.
    ///
    /// - Parameters:
    ///   - configuration: How the calls are to be carried out; left out, as usual.
    ///   - group: The group that they belong to.
    ///   - body: Makes its calls on the database that it is given.
    /// - Returns: What `body` returns.
    @discardableResult
    public func configuredWith<R>(
        configuration: CKOperation.Configuration? = nil,
        group: CKOperationGroup? = nil,
        body: (CKDatabase) throws -> R
    ) rethrows -> R {
        try body(configured(RequestSettings(configuration, group)))
    }

    /// Runs calls with settings of their own.
    ///
    /// - Parameters:
    ///   - configuration: How the calls are to be carried out; left out, as usual.
    ///   - group: The group that they belong to.
    ///   - body: Makes its calls on the database that it is given.
    /// - Returns: What `body` returns.
    @discardableResult
    public nonisolated(nonsending) func configuredWith<R>(
        configuration: CKOperation.Configuration? = nil,
        group: CKOperationGroup? = nil,
        body: (CKDatabase) async throws -> R
    ) async rethrows -> R {
        try await body(configured(RequestSettings(configuration, group)))
    }
}

extension CKContainer {
    /// The same container for requests of other settings.
    private func configured(_ settings: RequestSettings) -> CKContainer {
        CKContainer(sharing: session, settings: settings)
    }

    /// Runs calls with settings of their own.
    ///
    /// - Parameters:
    ///   - configuration: How the calls are to be carried out; left out, as usual.
    ///   - group: The group that they belong to.
    ///   - body: Makes its calls on the container that it is given, and on its databases.
    /// - Returns: What `body` returns.
    @discardableResult
    public func configuredWith<R>(
        configuration: CKOperation.Configuration? = nil,
        group: CKOperationGroup? = nil,
        body: (CKContainer) throws -> R
    ) rethrows -> R {
        try body(configured(RequestSettings(configuration, group)))
    }

    /// Runs calls with settings of their own.
    ///
    /// - Parameters:
    ///   - configuration: How the calls are to be carried out; left out, as usual.
    ///   - group: The group that they belong to.
    ///   - body: Makes its calls on the container that it is given, and on its databases.
    /// - Returns: What `body` returns.
    @discardableResult
    public nonisolated(nonsending) func configuredWith<R>(
        configuration: CKOperation.Configuration? = nil,
        group: CKOperationGroup? = nil,
        body: (CKContainer) async throws -> R
    ) async rethrows -> R {
        try await body(configured(RequestSettings(configuration, group)))
    }
}
