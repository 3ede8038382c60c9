package import RelayAPI
package import RelayCore
package import RelayStore

/// All that the console looks at and acts on: the running relay from the inside.
package struct ConsoleParts: Sendable {
    package var accounts: AccountStore
    package var stores: StoreFolder
    package var relay: Relay
    package var hub: NoticeHub
    package var metrics: RelayMetrics
    package var telemetry: Telemetry
    package var requests: RecentRequests
    package var facts: ConsoleFacts
    package var time: TimeSource
    /// What `zonecast doctor` finds in the data folder; `nil` where nobody looks.
    package var look: (@Sendable () -> [Finding])?
    /// The way to push services; `nil` where none is set up.
    package var push: (any PushGateway)?

    /// One of the doctor's findings.
    package struct Finding: Encodable, Sendable {
        package var check: String
        package var isProblem: Bool
        package var isAdvice: Bool
        package var found: String
        /// What to do about it.
        package var next: String?

        package init(check: String, isProblem: Bool, isAdvice: Bool, found: String, next: String?) {
            self.check = check
            self.isProblem = isProblem
            self.isAdvice = isAdvice
            self.found = found
            self.next = next
        }
    }

    package init(
        accounts: AccountStore,
        stores: StoreFolder,
        relay: Relay,
        hub: NoticeHub,
        metrics: RelayMetrics,
        telemetry: Telemetry,
        requests: RecentRequests,
        facts: ConsoleFacts,
        time: TimeSource,
        push: (any PushGateway)? = nil,
        look: (@Sendable () -> [Finding])? = nil
    ) {
        self.accounts = accounts
        self.stores = stores
        self.relay = relay
        self.hub = hub
        self.metrics = metrics
        self.telemetry = telemetry
        self.requests = requests
        self.facts = facts
        self.time = time
        self.push = push
        self.look = look
    }
}

/// What does not change while the relay runs.
package struct ConsoleFacts: Sendable {
    /// One setting, as the configuration page shows it.
    package struct Setting: Encodable, Sendable {
        package var key: String
        /// `nil`: a secret.
        package var value: String?
        package var unit: String
        package var standard: String
        /// `default`, `flag`, `environment` or the file with its line.
        package var origin: String
        package var meaning: String

        package init(key: String, value: String?, unit: String, standard: String, origin: String, meaning: String) {
            self.key = key
            self.value = value
            self.unit = unit
            self.standard = standard
            self.origin = origin
            self.meaning = meaning
        }
    }

    /// One push service, as the push page shows it.
    package struct PushServiceFact: Sendable {
        package var service: PushTarget.Service
        package var name: String
        package var isSetUp: Bool
        /// For which apps, or as whom.
        package var detail: String?
        /// What sets it up.
        package var command: String

        package init(
            _ service: PushTarget.Service,
            name: String,
            isSetUp: Bool,
            detail: String? = nil,
            command: String
        ) {
            self.service = service
            self.name = name
            self.isSetUp = isSetUp
            self.detail = detail
            self.command = command
        }
    }

    package var version: String
    package var isDev: Bool
    /// Whether browsers reach the relay by https, so that cookies are for https alone.
    package var isSecure: Bool
    package var publicURL: String?
    /// The data folder.
    package var data: String
    package var started: Int64
    package var limits: Limits
    /// How old an asset is that no record uses before it may go: it may still be on its way into a record.
    package var unusedAssetLifetime: Duration
    package var settings: [Setting]
    /// The push services that there are.
    package var pushServices: [PushServiceFact]

    package init(
        version: String,
        isDev: Bool,
        isSecure: Bool,
        publicURL: String?,
        data: String,
        started: Int64,
        limits: Limits,
        unusedAssetLifetime: Duration = AssetSettings().unusedLifetime,
        settings: [Setting],
        pushServices: [PushServiceFact] = []
    ) {
        self.version = version
        self.isDev = isDev
        self.isSecure = isSecure
        self.publicURL = publicURL
        self.data = data
        self.started = started
        self.limits = limits
        self.unusedAssetLifetime = unusedAssetLifetime
        self.settings = settings
        self.pushServices = pushServices
    }
}
