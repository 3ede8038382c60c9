import CloudKit

// Records, zones, shares, subscriptions, notifications and queries, as people write them for Apple's framework: in
// Swift's older language mode and without Zonecast's additions. The test is that this compiles. Other tests cover what
// it does.

private func record(_ z: CKRecordZone.ID, _ share: CKShare) throws {
    let t: CKRecord.RecordType = "A"; let id = CKRecord.ID(recordName: "x", zoneID: z); _ = CKRecord.ID(zoneID: z);
    _ = CKRecord.ID(recordName: "x")
    let r = CKRecord(recordType: t, recordID: id); _ = CKRecord(recordType: t); _ = CKRecord(recordType: t, zoneID: z)
    _ = CKRecord.SystemType.userRecord; _ = CKRecord.SystemType.share; _ = CKRecord.SystemFieldKey.parent;
    _ = CKRecord.SystemFieldKey.share; _ = CKRecord.SystemFieldKey.creationDate;
    _ = CKRecord.SystemFieldKey.modificationDate; _ = CKRecord.SystemFieldKey.creatorUserRecordID;
    _ = CKRecord.SystemFieldKey.lastModifiedUserRecordID; _ = CKRecord.SystemFieldKey.recordID
    _ = r.recordType; _ = r.recordID; _ = r.recordChangeTag; _ = r.creatorUserRecordID; _ = r.creationDate;
    _ = r.lastModifiedUserRecordID; _ = r.modificationDate; _ = r.share; _ = r.parent
    r.setParent(r); r.setParent(id); r.setParent(nil as CKRecord?); r.setParent(nil as CKRecord.ID?); _ = r.allKeys();
    _ = r.changedKeys(); _ = r.allTokens()
    for (k, v) in r { let kk: CKRecord.FieldKey = k; let vv: CKRecordValue = v; _ = (kk, vv) }
    var it = r.makeIterator(); _ = it.next()
    r["a"] = "x"; r["b"] = 1; r["c"] = 1.5; r["d"] = true; r["e"] = Date(); r["f"] = Data(); r["g"] = ["x"];
    r["h"] = [1]; r["i"] = CLLocation(latitude: 1, longitude: 1); r["j"] = [CLLocation]();
    r["k"] = CKRecord.Reference(recordID: id, action: .none); r["l"] = [CKRecord.Reference]();
    r["m"] = CKAsset(fileURL: URL(fileURLWithPath: "/x")); r["n"] = [Data()]; r["o"] = [Date()];
    r["p"] = NSNumber(value: 1); r["q"] = "x" as NSString; r["r"] = NSDate(); r["s"] = NSData(); r["t"] = NSArray();
    r["u"] = UInt8(1); r["v"] = Int64(1); r["w"] = Float(1); r["x"] = nil
    let s: String? = r["a"]; let i: Int? = r["b"]; let dd: Date? = r["e"]; let arr: [String]? = r["g"];
    let a: CKAsset? = r["m"]; let rf: CKRecord.Reference? = r["k"]; let bo: Bool? = r["d"]; let db: Double? = r["c"];
    let any = r["a"]; _ = (s, i, dd, arr, a, rf, bo, db, any)
    let v: __CKRecordObjCValue? = r["a"]; _ = v
    let opt: String? = nil; r["a"] = opt; r["a"] = opt as CKRecordValue?; r.setObject("x" as NSString, forKey: "a");
    r.setObject(nil, forKey: "a"); _ = r.object(forKey: "a"); r.setValue(1, forKey: "x"); _ = r.value(forKey: "x")
    let ev: CKRecordKeyValueSetting = r.encryptedValues; ev["z"] = "s"; let es: String? = ev["z"]; _ = es;
    _ = ev.allKeys(); _ = ev.changedKeys(); ev.setObject("x" as NSString, forKey: "z"); _ = ev.object(forKey: "z");
    r.encryptedValues["y"] = 5; let n: Int? = r.encryptedValues["y"]; _ = n;
    if let d = r.encryptedValues["y"] as? Data { _ = d }
    _ = r.copy() as? CKRecord; let cod = NSKeyedArchiver(requiringSecureCoding: true); r.encodeSystemFields(with: cod);
    r.encode(with: cod); _ = try CKRecord(coder: NSKeyedUnarchiver(forReadingFrom: Data()))
    let data = try NSKeyedArchiver.archivedData(withRootObject: r, requiringSecureCoding: true);
    _ = try NSKeyedUnarchiver.unarchivedObject(ofClass: CKRecord.self, from: data)
    for cls in [
        CKRecord.self, CKRecord.ID.self, CKRecordZone.self, CKRecordZone.ID.self, CKRecord.Reference.self,
        CKServerChangeToken.self, CKQuery.self, CKSubscription.self, CKShare.self, CKShare.Metadata.self,
        CKShare.Participant.self, CKUserIdentity.self, CKUserIdentity.LookupInfo.self, CKOperationGroup.self,
        CKSubscription.NotificationInfo.self, CKNotification.ID.self, CKQueryOperation.Cursor.self,
        CKRecordZoneSubscription.self, CKDatabaseSubscription.self, CKQuerySubscription.self,
        CKAllowedSharingOptions.self, CKFetchRecordZoneChangesOperation.ZoneConfiguration.self,
    ] as [NSSecureCoding.Type] { _ = cls.supportsSecureCoding }
    _ = CKRecord.Reference(record: r, action: .deleteSelf).recordID;
    _ = CKRecord.Reference(recordID: id, action: .none).action; _ = CKRecord.ReferenceAction.deleteSelf;
    let ra: CKRecord.Reference.Action = .none; _ = ra
    _ = CKAsset(fileURL: URL(fileURLWithPath: "/x")).fileURL; _ = id.recordName; _ = id.zoneID; _ = id == id;
    _ = id.hash; _ = Set([id])
    _ = [
        CKRecordParentKey, CKRecordShareKey, CKRecordTypeShare, CKRecordTypeUserRecord, CKRecordZoneDefaultName,
        CKShareThumbnailImageDataKey, CKShareTitleKey, CKShareTypeKey, CKCurrentUserDefaultName, CKOwnerDefaultName,
    ]
}
private func zones() {
    let z = CKRecordZone(zoneName: "A"); _ = CKRecordZone(zoneID: .default); _ = CKRecordZone.default();
    _ = CKRecordZone.ID.defaultZoneName; _ = CKRecordZone.ID(zoneName: "a", ownerName: CKCurrentUserDefaultName);
    _ = CKRecordZone.ID(zoneName: "a"); _ = z.zoneID.zoneName; _ = z.zoneID.ownerName;
    let c: CKRecordZone.Capabilities = z.capabilities;
    _ = c.contains(.fetchChanges) || c.contains(.atomic) || c.contains(.sharing) || c.contains(.zoneWideSharing);
    _ = z.share; _ = z.encryptionScope; _ = CKRecordZone.ID.default
}
private func shares(_ s: CKShare, _ p: CKShare.Participant, _ m: CKShare.Metadata) throws {
    _ = CKShare(rootRecord: CKRecord(recordType: "a"));
    _ = CKShare(rootRecord: CKRecord(recordType: "a"), shareID: CKRecord.ID(recordName: "s"));
    _ = CKShare(recordZoneID: .default)
    s.publicPermission = .readOnly; let u: URL? = s.url; _ = u; let ps: [CKShare.Participant] = s.participants; _ = ps;
    let o: CKShare.Participant = s.owner; _ = o; _ = s.currentUserParticipant; s.addParticipant(p);
    s.removeParticipant(p)
    s[CKShare.SystemFieldKey.title] = "x"; s[CKShare.SystemFieldKey.thumbnailImageData] = Data();
    s[CKShare.SystemFieldKey.shareType] = "t"; s.setValue("x", forKey: CKShare.SystemFieldKey.title)
    let i: CKUserIdentity = p.userIdentity; _ = i.userRecordID; _ = i.lookupInfo?.emailAddress;
    _ = i.lookupInfo?.phoneNumber; _ = i.lookupInfo?.userRecordID; _ = i.nameComponents; _ = i.hasiCloudAccount;
    _ = i.contactIdentifiers
    p.role = .privateUser; p.permission = .readWrite;
    switch p.acceptanceStatus {
    case .unknown, .pending, .accepted, .removed: break;
    @unknown default: break
    };
    switch p.role {
    case .unknown, .owner, .privateUser, .publicUser: break;
    default: break
    };
    switch p.permission {
    case .unknown, .none, .readOnly, .readWrite: break;
    @unknown default: break
    }; _ = p.type; _ = CKShare.ParticipantRole.administrator; _ = p.participantID; _ = p.isApprovedRequester;
    _ = p.dateAddedToShare
    let st: CKShare.ParticipantAcceptanceStatus = p.acceptanceStatus;
    let pp: CKShare.ParticipantPermission = p.permission; let rr: CKShare.ParticipantRole = p.role;
    let st2: CKShare.Participant.AcceptanceStatus = p.acceptanceStatus;
    let p2: CKShare.Participant.Permission = p.permission; let r2: CKShare.Participant.Role = p.role;
    _ = (st, pp, rr, st2, p2, r2); let p3: CKShare_Participant_Permission = p.permission
    let a3: CKShare_Participant_AcceptanceStatus = p.acceptanceStatus; let r3: CKShare_Participant_Role = p.role
    let t3: CKShare_Participant_ParticipantType = p.type; _ = (p3, a3, r3, t3)
    _ = m.containerIdentifier; _ = m.share; _ = m.hierarchicalRootRecordID; _ = m.participantRole;
    _ = m.participantStatus; _ = m.participantPermission; _ = m.ownerIdentity; _ = m.rootRecord; _ = m.rootRecordID;
    _ = m.participantType
    _ = CKUserIdentity.LookupInfo(emailAddress: "a"); _ = CKUserIdentity.LookupInfo(phoneNumber: "a");
    _ = CKUserIdentity.LookupInfo(userRecordID: CKRecord.ID(recordName: "a"));
    let l1: [CKUserIdentity.LookupInfo] = CKUserIdentity.LookupInfo.lookupInfos(withEmails: ["a"]);
    let l2 = CKUserIdentity.LookupInfo.lookupInfos(withPhoneNumbers: ["a"]);
    let l3 = CKUserIdentity.LookupInfo.lookupInfos(with: [CKRecord.ID(recordName: "a")]); _ = (l1, l2, l3)
    _ = CKAllowedSharingOptions(allowedParticipantPermissionOptions: .any, allowedParticipantAccessOptions: .any);
    _ = CKAllowedSharingOptions.standard; _ = CKSharingParticipantPermissionOption.readOnly;
    _ = CKSharingParticipantAccessOption.anyoneWithLink; _ = CKSharingParticipantAccessOption.specifiedRecipientsOnly;
    _ = CKSharingParticipantPermissionOption.readWrite;
    CKAllowedSharingOptions.standard.allowsParticipantsToInviteOthers = false;
    CKAllowedSharingOptions.standard.allowsAccessRequests = true
    s.allowsAccessRequests = true; let rq: [CKShare.AccessRequester] = s.requesters; _ = rq;
    let bl: [CKShare.BlockedIdentity] = s.blockedIdentities; _ = bl; s.denyRequesters(rq); s.blockRequesters(rq);
    s.unblockIdentities(bl); _ = CKShare.Participant.oneTimeURLParticipant(); _ = s.oneTimeURL(for: "x")
    _ = CKShareRequestAccessOperation(shareURLs: []).shareURLs
}
private func subs(_ pred: NSPredicate) {
    let q = CKQuerySubscription(
        recordType: "A",
        predicate: pred,
        subscriptionID: "x",
        options: [.firesOnRecordCreation, .firesOnRecordUpdate, .firesOnRecordDeletion, .firesOnce]
    ); _ = CKQuerySubscription(recordType: "A", predicate: pred, options: []); q.zoneID = .default; _ = q.predicate;
    _ = q.querySubscriptionOptions; _ = q.recordType; _ = q.subscriptionID; _ = q.subscriptionType == .query
    let z = CKRecordZoneSubscription(zoneID: .default, subscriptionID: "x");
    _ = CKRecordZoneSubscription(zoneID: .default); z.recordType = "A"; _ = z.zoneID
    let d = CKDatabaseSubscription(); d.recordType = "A"; _ = CKDatabaseSubscription(subscriptionID: "x")
    let i = CKSubscription.NotificationInfo(
        alertBody: "a",
        alertLocalizationKey: "b",
        alertLocalizationArgs: ["c"],
        title: "d",
        titleLocalizationKey: "e",
        titleLocalizationArgs: [],
        subtitle: "f",
        subtitleLocalizationKey: "g",
        subtitleLocalizationArgs: [],
        alertActionLocalizationKey: "h",
        alertLaunchImage: "i",
        soundName: "j",
        desiredKeys: ["k"],
        shouldBadge: true,
        shouldSendContentAvailable: true,
        shouldSendMutableContent: true,
        category: "l",
        collapseIDKey: "m"
    )
    i.desiredKeys = ["a"]; i.collapseIDKey = "x"; i.category = "x"; i.shouldBadge = true;
    i.alertLocalizationArgs = ["a"]; q.notificationInfo = i; let x: CKNotificationInfo? = i; _ = x
    switch q.subscriptionType {
    case .query, .recordZone, .database: break;
    @unknown default: break
    }
}
private func notes(_ u: [AnyHashable: Any]) {
    guard let n = CKNotification(fromRemoteNotificationDictionary: u) else { return }
    switch n.notificationType {
    case .query, .recordZone, .readNotification, .database: break;
    @unknown default: break
    }
    _ = n.notificationID; _ = n.containerIdentifier; _ = n.isPruned; _ = n.subscriptionID; _ = n.alertBody;
    _ = n.alertLocalizationKey; _ = n.alertLocalizationArgs; _ = n.title; _ = n.titleLocalizationKey;
    _ = n.titleLocalizationArgs; _ = n.subtitle; _ = n.subtitleLocalizationKey; _ = n.subtitleLocalizationArgs;
    _ = n.badge; _ = n.category; _ = n.soundName; _ = n.alertActionLocalizationKey; _ = n.alertLaunchImage;
    _ = n.subscriptionOwnerUserRecordID
    if let q = n as? CKQueryNotification {
        _ = q.queryNotificationReason; _ = q.recordFields; _ = q.recordID; _ = q.databaseScope;
        switch q.queryNotificationReason {
        case .recordCreated, .recordUpdated, .recordDeleted: break;
        @unknown default: break
        }
    }
    if let z = n as? CKRecordZoneNotification { _ = z.recordZoneID; _ = z.databaseScope };
    if let d = n as? CKDatabaseNotification { _ = d.databaseScope }
    if let strings = u as? [String: NSObject] { _ = CKNotification(fromRemoteNotificationDictionary: strings) }
}
private func queries() {
    let q = CKQuery(recordType: "A", predicate: NSPredicate(value: true));
    q.sortDescriptors = [
        NSSortDescriptor(key: "a", ascending: true),
        CKLocationSortDescriptor(key: "loc", relativeLocation: CLLocation(latitude: 0, longitude: 0)),
    ]; _ = q.recordType; _ = q.predicate; q.sortDescriptors?.first?.allowEvaluation(); q.predicate.allowEvaluation()
    _ = NSPredicate(format: "a == %@", argumentArray: ["x"]); _ = NSPredicate(format: "a IN %@", ["x"]);
    _ = NSPredicate(format: "%K BETWEEN {%d, %d}", "x", 1, 2); _ = NSPredicate(format: "ANY list == 'x'");
    _ = NSPredicate(format: "self contains 'x'"); _ = NSPredicate(format: "allTokens TOKENMATCHES[cdl] %@", "a b");
    _ = NSCompoundPredicate(orPredicateWithSubpredicates: [NSPredicate(value: true)]);
    _ = NSCompoundPredicate(notPredicateWithSubpredicate: NSPredicate(value: true));
    _ = NSCompoundPredicate(type: .and, subpredicates: []); _ = NSPredicate(format: "a > %@", Date() as NSDate);
    _ = NSPredicate(format: "TRUEPREDICATE"); _ = NSPredicate(format: "b == NO");
    _ = NSPredicate(format: "ref == %@", CKRecord.ID(recordName: "a")); _ = NSPredicate(format: "c == %i", 4);
    _ = NSPredicate(format: "n == nil")
}
