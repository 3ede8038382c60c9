public import Foundation
import Synchronization

/// The presentation of a subscription's notifications; also available as `CKSubscription.NotificationInfo`.
///
/// The relay stores all properties, and puts those that a push can contain into its `aps` part. For a silent
/// notification, set only `shouldSendContentAvailable`.
public final class CKNotificationInfo: NSObject, NSSecureCoding, NSCopying, Sendable {
    /// All values, protected by `state`; the names are those of the relay's JSON.
    struct Content: Codable, Hashable, Sendable {
        var alertBody: String?
        var alertLocalizationKey: String?
        var alertLocalizationArgs: [String]?
        var title: String?
        var titleLocalizationKey: String?
        var titleLocalizationArgs: [String]?
        var subtitle: String?
        var subtitleLocalizationKey: String?
        var subtitleLocalizationArgs: [String]?
        var alertActionLocalizationKey: String?
        var alertLaunchImage: String?
        var soundName: String?
        var category: String?
        var collapseIDKey: String?
        var desiredKeys: [String]?
        var shouldBadge: Bool?
        var shouldSendContentAvailable: Bool?
        var shouldSendMutableContent: Bool?
    }

    private let state: Mutex<Content>

    /// Creates notification info without any settings.
    public override init() {
        state = Mutex(Content())
    }

    /// Creates notification info.
    ///
    /// Each parameter is described at the property with its name.
    public convenience init(
        alertBody: String? = nil,
        alertLocalizationKey: String? = nil,
        alertLocalizationArgs: [CKRecord.FieldKey] = [],
        title: String? = nil,
        titleLocalizationKey: String? = nil,
        titleLocalizationArgs: [CKRecord.FieldKey] = [],
        subtitle: String? = nil,
        subtitleLocalizationKey: String? = nil,
        subtitleLocalizationArgs: [CKRecord.FieldKey] = [],
        alertActionLocalizationKey: String? = nil,
        alertLaunchImage: String? = nil,
        soundName: String? = nil,
        desiredKeys: [CKRecord.FieldKey] = [],
        shouldBadge: Bool = false,
        shouldSendContentAvailable: Bool = false,
        shouldSendMutableContent: Bool = false,
        category: String? = nil,
        collapseIDKey: String? = nil
    ) {
        func kept(_ names: [String]) -> [String]? { names.isEmpty ? nil : names }
        var content = Content(alertBody: alertBody, title: title, soundName: soundName, category: category)
        content.alertLocalizationKey = alertLocalizationKey
        content.alertLocalizationArgs = kept(alertLocalizationArgs)
        content.titleLocalizationKey = titleLocalizationKey
        content.titleLocalizationArgs = kept(titleLocalizationArgs)
        content.subtitle = subtitle
        content.subtitleLocalizationKey = subtitleLocalizationKey
        content.subtitleLocalizationArgs = kept(subtitleLocalizationArgs)
        content.alertActionLocalizationKey = alertActionLocalizationKey
        content.alertLaunchImage = alertLaunchImage
        content.collapseIDKey = collapseIDKey
        content.shouldSendMutableContent = shouldSendMutableContent ? true : nil
        content.desiredKeys = kept(desiredKeys)
        content.shouldBadge = shouldBadge ? true : nil
        content.shouldSendContentAvailable = shouldSendContentAvailable ? true : nil
        self.init(content)
    }

    init(_ content: Content) {
        state = Mutex(content)
    }

    /// Creates notification info from the output of `encode(with:)`.
    public convenience init?(coder: NSCoder) {
        guard let data = coder.bytes("Content") else { return nil }
        self.init(json: data)
    }

    /// Creates notification info from the relay's JSON object; `nil` if the object is not valid.
    convenience init?(json: [UInt8]) {
        guard let content = try? JSONDecoder().decode(Content.self, from: Data(json)) else { return nil }
        self.init(content)
    }

    /// The relay's JSON object.
    var json: [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        return (try? encoder.encode(state.withLock { $0 })).map { [UInt8]($0) } ?? Array("{}".utf8)
    }

    /// Whether the class supports secure coding: always `true`.
    public static var supportsSecureCoding: Bool { true }

    /// Encodes all settings.
    public func encode(with coder: NSCoder) { coder.encode(Data(json) as NSData, forKey: "Content") }

    /// Returns an independent copy.
    public func copy(with zone: NSZone? = nil) -> Any { CKNotificationInfo(state.withLock { $0 }) }

    /// Returns whether all settings are equal.
    public override func isEqual(_ object: Any?) -> Bool {
        guard let other = object as? CKNotificationInfo else { return false }
        return state.withLock { $0 } == other.state.withLock { $0 }
    }

    /// A hash that is consistent with `isEqual(_:)`.
    public override var hash: Int { state.withLock { $0 }.hashValue }

    private subscript<Value: Sendable>(_ path: any WritableKeyPath<Content, Value> & Sendable) -> Value {
        get { state.withLock { $0[keyPath: path] } }
        set { state.withLock { $0[keyPath: path] = newValue } }
    }

    /// The text of the alert.
    public var alertBody: String? {
        get { self[\.alertBody] }
        set { self[\.alertBody] = newValue }
    }
    /// The key of the alert's text in the app's localized strings.
    public var alertLocalizationKey: String? {
        get { self[\.alertLocalizationKey] }
        set { self[\.alertLocalizationKey] = newValue }
    }
    /// The fields whose values are the arguments of the localized text.
    public var alertLocalizationArgs: [CKRecord.FieldKey]? {
        get { self[\.alertLocalizationArgs] }
        set { self[\.alertLocalizationArgs] = newValue }
    }
    /// The title of the alert.
    public var title: String? {
        get { self[\.title] }
        set { self[\.title] = newValue }
    }
    /// The key of the title in the app's localized strings.
    public var titleLocalizationKey: String? {
        get { self[\.titleLocalizationKey] }
        set { self[\.titleLocalizationKey] = newValue }
    }
    /// The fields whose values are the arguments of the localized title.
    public var titleLocalizationArgs: [CKRecord.FieldKey]? {
        get { self[\.titleLocalizationArgs] }
        set { self[\.titleLocalizationArgs] = newValue }
    }
    /// The key of the subtitle in the app's localized strings.
    public var subtitleLocalizationKey: String? {
        get { self[\.subtitleLocalizationKey] }
        set { self[\.subtitleLocalizationKey] = newValue }
    }
    /// The fields whose values are the arguments of the localized subtitle.
    public var subtitleLocalizationArgs: [CKRecord.FieldKey]? {
        get { self[\.subtitleLocalizationArgs] }
        set { self[\.subtitleLocalizationArgs] = newValue }
    }
    /// The subtitle of the alert.
    public var subtitle: String? {
        get { self[\.subtitle] }
        set { self[\.subtitle] = newValue }
    }
    /// The key of the action button's title in the app's localized strings.
    public var alertActionLocalizationKey: String? {
        get { self[\.alertActionLocalizationKey] }
        set { self[\.alertActionLocalizationKey] = newValue }
    }
    /// The launch image to show when the user opens the app from the alert.
    public var alertLaunchImage: String? {
        get { self[\.alertLaunchImage] }
        set { self[\.alertLaunchImage] = newValue }
    }
    /// The sound to play.
    public var soundName: String? {
        get { self[\.soundName] }
        set { self[\.soundName] = newValue }
    }
    /// The category of the alert, which determines its buttons.
    public var category: String? {
        get { self[\.category] }
        set { self[\.category] = newValue }
    }
    /// The field whose value identifies alerts that replace each other.
    public var collapseIDKey: String? {
        get { self[\.collapseIDKey] }
        set { self[\.collapseIDKey] = newValue }
    }
    /// The fields whose values the notification contains; only for query subscriptions.
    public var desiredKeys: [CKRecord.FieldKey]? {
        get { self[\.desiredKeys] }
        set { self[\.desiredKeys] = newValue }
    }
    /// Whether the notification increments the app's badge.
    public var shouldBadge: Bool {
        get { self[\.shouldBadge] ?? false }
        set { self[\.shouldBadge] = newValue }
    }
    /// Whether the notification wakes the app in the background.
    public var shouldSendContentAvailable: Bool {
        get { self[\.shouldSendContentAvailable] ?? false }
        set { self[\.shouldSendContentAvailable] = newValue }
    }
    /// Whether the app may modify the alert before it is shown.
    public var shouldSendMutableContent: Bool {
        get { self[\.shouldSendMutableContent] ?? false }
        set { self[\.shouldSendMutableContent] = newValue }
    }
}
