-- Other types stay in the mirror's own topic, A.events.
SELECT
  CASE get_json_object(value, '$.type')
    WHEN 'click' THEN 'events.clicks'
    WHEN 'order' THEN 'events.orders'
    WHEN 'login' THEN 'events.logins'
  END AS topic
FROM records
