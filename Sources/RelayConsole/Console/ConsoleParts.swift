package import RelayAPI
package import RelayCore
package import RelayServer

/// The services of the running relay that the console uses.
package struct ConsoleParts: Sendable {
    package var home: any RelayHome
    package var accounts: any AccountDirectory
    package var stores: any ServedStores
    package var relay: Relay
    package var hub: NoticeHub
    package var metrics: RelayMetrics
    package var telemetry: Telemetry
    package var requests: RecentRequests
    package var facts: ConsoleFacts
    package var time: TimeSource
    package var files: WebFiles
    /// Runs the checks of `zonecast doctor`; `nil` if they are not available.
    package var runChecks: (@Sendable () -> [Finding])?
    /// The push services; `nil` if none is set up.
    package var push: (any PushGateway)?

    /// One of the doctor's findings.
    package struct Finding: Encodable, Sendable {
        package var check: String
        package var isProblem: Bool
        package var isAdvice: Bool
        package var found: String
        /// The recommended action.
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
        home: any RelayHome,
        accounts: any AccountDirectory,
        stores: any ServedStores,
        relay: Relay,
        hub: NoticeHub,
        metrics: RelayMetrics,
        telemetry: Telemetry,
        requests: RecentRequests,
        facts: ConsoleFacts,
        time: TimeSource,
        files: WebFiles = WebFiles(),
        push: (any PushGateway)? = nil,
        runChecks: (@Sendable () -> [Finding])? = nil
    ) {
        self.home = home
        self.accounts = accounts
        self.stores = stores
        self.relay = relay
        self.hub = hub
        self.metrics = metrics
        self.telemetry = telemetry
        self.requests = requests
        self.facts = facts
        self.time = time
        self.files = files
        self.push = push
        self.runChecks = runChecks
    }
}

/// Values that do not change while the relay runs.
package struct ConsoleFacts: Sendable {
    /// One setting, as the configuration page shows it.
    package struct Setting: Encodable, Sendable {
        package var key: String
        /// `nil` for a secret.
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
        /// The supported apps, or the account that is used.
        package var detail: String?
        /// The command that sets it up.
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
    /// Whether browsers use https, so that cookies must be restricted to https.
    package var isSecure: Bool
    package var publicURL: String?
    /// The data folder.
    package var data: String
    package var started: Int64
    package var limits: Limits
    /// The age at which an unused asset may be deleted; a younger one may still be saved in a record.
    package var unusedAssetLifetime: Duration
    package var settings: [Setting]
    /// All supported push services.
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
