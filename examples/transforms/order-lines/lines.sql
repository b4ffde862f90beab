-- The key is the order's still, so its lines stay together and in their order.
SELECT
  'order-lines' AS topic,
  named_struct(
    'order', id,
    'line', number + 1,
    'product', line.product,
    'count', line.count,
    'total', line.count * line.price
  ) AS value
FROM (SELECT value.id, posexplode(value.lines) AS (number, line) FROM records)
