extension CKDatabase {
    /// Makes calls with their own configuration.
    ///
    /// - Parameters:
    ///   - configuration: The configuration of the calls; `nil` for the default.
    ///   - group: The group that the calls belong to.
    ///   - body: A closure that makes calls on the database that it receives.
    /// - Returns: The result of `body`.
    @discardableResult
    public func configuredWith<R>(
        configuration: CKOperation.Configuration? = nil,
        group: CKOperationGroup? = nil,
        body: (CKDatabase) throws -> R
    ) rethrows -> R {
        try body(configured(RequestSettings(configuration, group)))
    }

    /// Makes calls with their own configuration.
    ///
    /// - Parameters:
    ///   - configuration: The configuration of the calls; `nil` for the default.
    ///   - group: The group that the calls belong to.
    ///   - body: A closure that makes calls on the database that it receives.
    /// - Returns: The result of `body`.
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
    /// Returns this container with other request settings.
    private func configured(_ settings: RequestSettings) -> CKContainer {
        CKContainer(sharing: session, settings: settings)
    }

    /// Makes calls with their own configuration.
    ///
    /// - Parameters:
    ///   - configuration: The configuration of the calls; `nil` for the default.
    ///   - group: The group that the calls belong to.
    ///   - body: A closure that makes calls on the container that it receives, and on its databases.
    /// - Returns: The result of `body`.
    @discardableResult
    public func configuredWith<R>(
        configuration: CKOperation.Configuration? = nil,
        group: CKOperationGroup? = nil,
        body: (CKContainer) throws -> R
    ) rethrows -> R {
        try body(configured(RequestSettings(configuration, group)))
    }

    /// Makes calls with their own configuration.
    ///
    /// - Parameters:
    ///   - configuration: The configuration of the calls; `nil` for the default.
    ///   - group: The group that the calls belong to.
    ///   - body: A closure that makes calls on the container that it receives, and on its databases.
    /// - Returns: The result of `body`.
    @discardableResult
    public nonisolated(nonsending) func configuredWith<R>(
        configuration: CKOperation.Configuration? = nil,
        group: CKOperationGroup? = nil,
        body: (CKContainer) async throws -> R
    ) async rethrows -> R {
        try await body(configured(RequestSettings(configuration, group)))
    }
}
